package decide

import "fmt"

// Role is what the key that signed a commit of the state branch may do there.
type Role int

const (
	// Nobody: there is no signature, or none that counts.
	Nobody Role = iota
	// Person may commit by hand, as with godwit approve or git revert.
	Person
	// Bot is the reconciler.
	Bot
)

// Link is one commit of the state branch as its signature shows it.
type Link struct {
	Name, Tree string
	// Ours: it says that a reconciler made it.
	Ours bool
	By   Role
	// Vouches: it says that it lets in all that is before it. That counts for a person who may sign.
	Vouches bool
	// Why nobody counts as its signer.
	Why error
}

// problem is what is wrong with the link by itself; nil means nothing.
func (l Link) problem() error {
	switch {
	case l.By == Nobody:
		return fmt.Errorf("commit %s: %w", l.Name, l.Why)
	case l.Ours && l.By != Bot:
		return fmt.Errorf("commit %s says that godwit made it, and a person signed it", l.Name)
	}
	return nil
}

// Trust judges commits of the state branch, oldest first, that follow one with the tree base which is trusted; base is
// empty if there is none, which is so before the first commit. It returns how many of them, from the first one on, can
// be used, and what is wrong with those that cannot by themselves.
//
// A commit that is not signed as it should be keeps out what comes after it, up to one that makes good for it: by the
// bot, which builds on nothing that it does not use; by a person who says so, or who puts everything back to what it
// was. Where the branch was rewound, only a person's word makes good: everything in it may be signed and out of date.
func Trust(base string, links []Link, rewound bool) (use int, problems []error) {
	ok := !rewound
	for i, l := range links {
		problem := l.problem()
		switch {
		case problem != nil:
			ok = false
			problems = append(problems, problem)
			continue
		case l.By == Person && l.Vouches:
			ok, rewound = true, false
		case rewound:
		case l.By == Bot || l.Tree == base:
			ok = true
		}
		if ok {
			use, base = i+1, l.Tree
		}
	}
	return use, problems
}
