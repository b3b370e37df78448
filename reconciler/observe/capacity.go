package observe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// Node and Pod are what capacity needs to know of them, in the shape of the API. The whole of
// them is ten times as much.
type (
	Node struct {
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Taints []corev1.Taint `json:"taints"`
		} `json:"spec"`
		Status struct {
			Allocatable Resources       `json:"allocatable"`
			Conditions  []NodeCondition `json:"conditions"`
		} `json:"status"`
	}
	NodeCondition struct {
		Type   corev1.NodeConditionType `json:"type"`
		Status corev1.ConditionStatus   `json:"status"`
	}
	Pod struct {
		Spec struct {
			NodeName       string      `json:"nodeName"`
			Containers     []Container `json:"containers"`
			InitContainers []Container `json:"initContainers"`
			Overhead       Resources   `json:"overhead"`
		} `json:"spec"`
		Status struct {
			Phase corev1.PodPhase `json:"phase"`
		} `json:"status"`
	}
	Container struct {
		Resources struct {
			Requests Resources `json:"requests"`
		} `json:"resources"`
	}
	// Resources are amounts that can be computed with.
	Resources corev1.ResourceList
)

// UnmarshalJSON refuses amounts of more digits than a member could mean.
func (r *Resources) UnmarshalJSON(data []byte) error {
	var texts map[corev1.ResourceName]json.RawMessage
	if err := json.Unmarshal(data, &texts); err != nil || texts == nil {
		return err
	}
	*r = make(Resources, len(texts))
	for name, text := range texts {
		if !canonical.Sensible(string(bytes.Trim(text, `"`))) {
			return fmt.Errorf("%.64s is no amount of %.64s to compute with", text, name)
		}
		var q resource.Quantity
		if err := json.Unmarshal(text, &q); err != nil {
			return err
		}
		(*r)[name] = q
	}
	return nil
}

func (n *Node) ready() bool {
	return slices.Contains(n.Status.Conditions, NodeCondition{corev1.NodeReady, corev1.ConditionTrue})
}

// request is the sum over the containers, raised to what the largest init container asks for, and
// the overhead.
func (p *Pod) request() corev1.ResourceList {
	total := corev1.ResourceList{}
	for _, c := range p.Spec.Containers {
		add(total, corev1.ResourceList(c.Resources.Requests))
	}
	for _, c := range p.Spec.InitContainers {
		for name, q := range c.Resources.Requests {
			if q.Cmp(total[name]) > 0 {
				total[name] = q.DeepCopy()
			}
		}
	}
	add(total, corev1.ResourceList(p.Spec.Overhead))
	return total
}

// add adds to a total, which owns its numbers: a Quantity that was merely copied may share them.
func add(total, more corev1.ResourceList) {
	for name, q := range more {
		sum := total[name]
		sum.Add(q)
		total[name] = sum
	}
}

// Usage is what pods ask of each node, by its name, their number under "pods" included. The empty name
// is for pods without a node. It takes the place of a list of pods, which can be long.
type Usage map[string]corev1.ResourceList

var onePod = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}

// Add takes a pod into account. One that has finished on its node asks for nothing.
func (u Usage) Add(p *Pod) {
	node, phase := p.Spec.NodeName, p.Status.Phase
	if node != "" && (phase == corev1.PodSucceeded || phase == corev1.PodFailed) {
		return
	}
	if u[node] == nil {
		u[node] = corev1.ResourceList{}
	}
	add(u[node], p.request())
	add(u[node], onePod)
}

// Capacity sums up a member as Karmada does: allocatable is what all nodes have, ready or not; allocated what
// pods on nodes ask for; allocating what pods without a node do. With models it also counts the nodes of
// every grade, by what they have free.
func Capacity(nodes []Node, used Usage, models []clusterv1alpha1.ResourceModel) (clusterv1alpha1.NodeSummary, clusterv1alpha1.ResourceSummary) {
	summary := clusterv1alpha1.NodeSummary{TotalNum: int32(len(nodes))}
	resources := clusterv1alpha1.ResourceSummary{
		Allocatable: corev1.ResourceList{}, Allocating: corev1.ResourceList{}, Allocated: corev1.ResourceList{},
		AllocatableModelings: modelings(nodes, used, models),
	}
	for i := range nodes {
		if nodes[i].ready() {
			summary.ReadyNum++
		}
		add(resources.Allocatable, corev1.ResourceList(nodes[i].Status.Allocatable))
	}
	for _, node := range slices.Sorted(maps.Keys(used)) {
		if node == "" {
			add(resources.Allocating, used[node])
		} else {
			add(resources.Allocated, used[node])
		}
	}
	return summary, resources
}

// modelings counts the nodes of each grade; nil without models.
func modelings(nodes []Node, used Usage, models []clusterv1alpha1.ResourceModel) []clusterv1alpha1.AllocatableModeling {
	models = slices.SortedStableFunc(slices.Values(models), func(a, b clusterv1alpha1.ResourceModel) int { return cmp.Compare(a.Grade, b.Grade) })
	var counts []clusterv1alpha1.AllocatableModeling
	for _, m := range models {
		counts = append(counts, clusterv1alpha1.AllocatableModeling{Grade: m.Grade})
	}
	for i := range nodes {
		if g := gradeOf(&nodes[i], used[nodes[i].Metadata.Name], models); g >= 0 {
			counts[g].Count++
		}
	}
	return counts
}

// gradeOf is the index of the last model of which the node has at least the minimum of every resource
// free. The minimums of valid models grow. It is -1 if there is none, or no pod fits on the node any more.
//
// Differs from Karmada: there the first node that is full ends the count, and those after it are missing.
func gradeOf(n *Node, used corev1.ResourceList, models []clusterv1alpha1.ResourceModel) int {
	free := func(name corev1.ResourceName) resource.Quantity {
		q := n.Status.Allocatable[name].DeepCopy()
		q.Sub(used[name])
		return q
	}
	if pods := free(corev1.ResourcePods); pods.Sign() <= 0 {
		return -1
	}
	for i, m := range models {
		for _, r := range m.Ranges {
			if q := free(r.Name); q.Cmp(r.Min) < 0 {
				return i - 1
			}
		}
	}
	return len(models) - 1
}

// Inventory lists a member's nodes, and its pods summed up. It has the deadline of ctx; the error is the API's,
// wrapped. Answers are decoded while they arrive, object by object.
func Inventory(ctx context.Context, client rest.Interface) ([]Node, Usage, error) {
	var nodes []Node
	used := Usage{}
	if err := each(ctx, client, "nodes", func(n *Node) { nodes = append(nodes, *n) }); err != nil {
		return nil, nil, err
	}
	if err := each(ctx, client, "pods", used.Add); err != nil {
		return nil, nil, err
	}
	return nodes, used, nil
}

// each lists the objects of a kind of the core group.
func each[T any](ctx context.Context, client rest.Interface, kind string, take func(*T)) error {
	// Version 0 is whatever the API server has at hand. It may give all of that on one page. Later pages
	// must not name a version: it is in the token.
	for from := [2]string{"resourceVersion", "0"}; from[1] != ""; from[0] = "continue" {
		page, err := client.Get().AbsPath("/api/v1/"+kind).SetHeader("Accept", "application/json").
			Param("limit", strconv.Itoa(pageSize)).Param(from[0], from[1]).MaxRetries(0).Stream(ctx)
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		from[1], err = decodeList(page, take)
		page.Close()
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
	}
	return nil
}

// decodeList reads a list and gives its token for the next page; empty means that this is the last one.
func decodeList[T any](r io.Reader, take func(*T)) (next string, err error) {
	d, listed := json.NewDecoder(r), false
	err = fields(d, '{', func(name json.Token) error {
		switch name {
		case "metadata":
			var meta struct {
				Continue string `json:"continue"`
			}
			err := d.Decode(&meta)
			next = meta.Continue
			return err
		case "items":
			listed = true
			return fields(d, '[', func(json.Token) error {
				var item T
				if err := d.Decode(&item); err != nil {
					return err
				}
				take(&item)
				return nil
			})
		}
		var other json.RawMessage
		return d.Decode(&other)
	})
	if err == nil && !listed {
		err = errors.New("the answer is no list")
	}
	return next, err
}

// fields calls read for every field of an object, with its name, or element of an array. Null has none.
func fields(d *json.Decoder, open json.Delim, read func(name json.Token) error) error {
	token, err := d.Token()
	switch {
	case err != nil || token == nil:
		return err
	case token != open:
		return fmt.Errorf("%v where a list has %v", token, open)
	}
	for d.More() {
		var name json.Token
		if open == '{' {
			if name, err = d.Token(); err != nil {
				return err
			}
		}
		if err := read(name); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end; an answer that is cut off has none
	return err
}
