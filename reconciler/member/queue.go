package member

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/apply"
)

// A queue says which object of a member is next. It reads no clock and takes no lock.
//
// Objects are handed out when they are due, those of an earlier stage first, then by ID; none of a later
// stage while one of an earlier stage is in work. An object is in work at most once; what is
// added meanwhile comes after. The zero value is an empty queue.
type queue struct {
	entries map[api.ID]*entry
	due     byOrder // of entries that may start
	later   byTime  // of entries that may start at some time
	working [apply.DeleteGround + 1]int
}

type entry struct {
	id    api.ID
	stage apply.Stage
	at    time.Time
	where place
	index int // in its heap
	// again: it was added while in work; next is the stage to add it in then.
	again bool
	next  apply.Stage
}

type place int

const (
	isDue place = iota
	isLater
	isWorking
)

// add asks for an object at a time; an earlier time wins over a later one.
func (q *queue) add(id api.ID, stage apply.Stage, at time.Time) {
	if q.entries == nil {
		q.entries = map[api.ID]*entry{}
	}
	e := q.entries[id]
	switch {
	case e == nil:
		e = &entry{id: id, stage: stage, at: at, where: isLater}
		q.entries[id] = e
		heap.Push(&q.later, e)
	case e.where == isWorking:
		if !e.again || at.Before(e.at) {
			e.again, e.at = true, at
		}
		e.next = stage
	case e.where == isLater && at.Before(e.at):
		e.at = at
		heap.Fix(&q.later, e.index)
	}
}

// remove forgets an object; one that is in work is not wanted again.
func (q *queue) remove(id api.ID) {
	e := q.entries[id]
	switch {
	case e == nil:
	case e.where == isWorking:
		e.again = false
	case e.where == isLater:
		heap.Remove(&q.later, e.index)
		delete(q.entries, id)
	default:
		heap.Remove(&q.due, e.index)
		delete(q.entries, id)
	}
}

// next takes the next object in work; false if none may start now.
func (q *queue) next(now time.Time) (api.ID, bool) {
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		e := heap.Pop(&q.later).(*entry)
		e.where = isDue
		heap.Push(&q.due, e)
	}
	if len(q.due) == 0 {
		return api.ID{}, false
	}
	e := q.due[0]
	for stage := range e.stage {
		if q.working[stage] > 0 {
			return api.ID{}, false
		}
	}
	heap.Pop(&q.due)
	e.where = isWorking
	q.working[e.stage]++
	return e.id, true
}

// done ends the work on an object.
func (q *queue) done(id api.ID) {
	e := q.entries[id]
	if e == nil || e.where != isWorking {
		return
	}
	q.working[e.stage]--
	delete(q.entries, id)
	if e.again {
		q.add(id, e.next, e.at)
	}
}

// wake is when next may give something that it does not give now, if nothing is added or done
// before; false means never.
func (q *queue) wake() (time.Time, bool) {
	if len(q.later) == 0 {
		return time.Time{}, false
	}
	return q.later[0].at, true
}

// length is how many objects are due, or in work.
func (q *queue) length(now time.Time) int {
	n := len(q.due)
	for _, e := range q.later {
		if !e.at.After(now) {
			n++
		}
	}
	for _, working := range q.working {
		n += working
	}
	return n
}

// busy tells whether an object is due or in work.
func (q *queue) busy() bool {
	return len(q.due) > 0 || q.working != [len(q.working)]int{}
}

type byTime []*entry

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *byTime) Push(x any)        { e := x.(*entry); e.index = len(*h); *h = append(*h, e) }
func (h *byTime) Pop() any          { return pop((*[]*entry)(h)) }

type byOrder []*entry

func (h byOrder) Len() int { return len(h) }
func (h byOrder) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].stage, h[j].stage), h[i].id.Compare(h[j].id)) < 0
}
func (h byOrder) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *byOrder) Push(x any)   { e := x.(*entry); e.index = len(*h); *h = append(*h, e) }
func (h *byOrder) Pop() any     { return pop((*[]*entry)(h)) }

func pop(h *[]*entry) *entry {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}

// backoff gives the pause before the nth attempt after a failure, from 1.
type backoff struct{ min, max time.Duration }

func (b backoff) pause(n int) time.Duration {
	d := b.min
	for ; n > 1 && d < b.max; n-- {
		d *= 2
	}
	return min(d, b.max)
}
