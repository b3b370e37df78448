package decide

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// read fills p.input. Where the newest version of an object cannot be used, the last good one stands
// in for it, and state.yaml remembers from which commit it is.
func (p *pass) read() {
	tree, scopes, before := treeHash(p.Source.FS), p.scopes(), len(p.Findings)
	if last := &p.Memo.reading; last.tree == tree && tree != "" && maps.Equal(last.scopes, scopes) && last.registered == p.Memo.registered {
		p.input, p.next.Meta.Held = last.compiled, nil
		p.find(last.findings...)
		return
	}
	units, outside := p.within(p.Memo.parse(p.Source.FS, p.Memo.manifests), scopes)
	past := p.newPast(scopes)
	held := map[string]string{} // path -> commit
	whole := true
	have := p.names(units)
	for i, u := range units {
		if !u.Broken && !outside.units[u.Path] {
			continue
		}
		whole = false
		old, commit, ok := past.unit(u.Path)
		if !ok {
			p.lost = p.lost || past.known && u.Broken
			continue
		}
		held[u.Path] = commit
		units[i].Objects = slices.Clip(u.Objects)
		for _, o := range old {
			if !have[p.name(o)] { // it may have moved to another file
				units[i].Objects = append(units[i].Objects, o)
			}
		}
	}
	p.find(outside.findings...)
	var all []*manifest.Object
	for _, u := range units {
		p.find(u.Findings...)
		all = append(all, u.Objects...)
	}
	objects, bad, findings := p.Memo.manifests.Settle(units, manifest.NewScope(all, scopes), p.Options.DefaultNamespace)
	p.find(findings...)
	for _, id := range sortedIDs(bad) {
		whole = false
		if o := past.object(id, bad[id][0].Origin.File, held); o != nil {
			objects = append(objects, o)
		} else {
			p.lost = p.lost || past.known
		}
	}
	slices.SortFunc(objects, compareObjects)
	p.input = p.Memo.compile(objects, &p.Memo.compiled)
	p.find(p.input.findings...)
	if unusable := p.input.unusable(); len(unusable) > 0 {
		whole = false
		p.replace(objects, unusable, past, held)
	}
	p.refused = outside.objects
	maps.DeleteFunc(p.refused, func(id api.ID, _ bool) bool { return p.input.all[id] != nil })
	p.Memo.reading = reading{}
	if whole {
		p.Memo.reading = reading{tree, scopes, p.Memo.registered, p.input, slices.Clone(p.Findings[before:])}
	}

	p.next.Meta.Held = nil
	for path, commit := range held {
		p.next.Meta.Held = append(p.next.Meta.Held, record.Held{Path: path, Commit: commit})
	}
	slices.SortFunc(p.next.Meta.Held, func(a, b record.Held) int { return cmp.Compare(a.Path, b.Path) })
}

// reading is what a source without errors came to, by its tree and the scopes of kinds.
type reading struct {
	tree       string
	scopes     map[string]bool
	registered int
	compiled   *compiled
	findings   []render.Finding
}

// replace exchanges objects that cannot be used by their last good version. Without one they stay as
// they are, and what is compiled leaves them out.
func (p *pass) replace(objects []*manifest.Object, unusable map[place]bool, past *past, held map[string]string) {
	replaced := slices.Clone(objects)
	files := map[string]string{}
	for i, o := range objects {
		if unusable[placeOf(o)] {
			if old := past.object(o.ID.Unversioned(), o.Origin.File, files); old != nil {
				replaced[i] = old
			} else if _, ok := past.tree(past.commitOf(o.Origin.File)); !ok {
				p.lost = p.lost || past.known
			}
		}
	}
	if len(files) == 0 {
		return
	}
	// What cannot be used either is no good version: the state may be of a commit with the same error.
	p.input = p.Memo.compile(replaced, &p.Memo.mended)
	unusable = p.input.unusable()
	for i, o := range objects {
		if commit, ok := files[o.Origin.File]; ok && replaced[i] != o && !unusable[placeOf(replaced[i])] {
			held[o.Origin.File] = commit
		}
	}
}

func compareObjects(a, b *manifest.Object) int { return a.ID.Compare(b.ID) }

// scopes are the scopes of kinds as members report them.
func (p *pass) scopes() map[string]bool {
	scopes := map[string]bool{}
	for _, name := range sortedKeys(p.Seen.Members) {
		for kind, namespaced := range p.Seen.Members[name].Namespaced {
			scopes[kind] = namespaced
		}
	}
	return scopes
}

// past is the source as it was when the previous state was decided.
type past struct {
	pass *pass
	// known: there is a previous state, so that names may be missing.
	known  bool
	commit string
	held   map[string]string // path -> commit of the version in force
	scopes map[string]bool
	read   map[string]earlier // by commit
}

// earlier is what an earlier commit has within the limits of projects.
type earlier struct {
	units   []manifest.Unit
	outside outside
}

func (p *pass) newPast(scopes map[string]bool) *past {
	meta := p.Previous.Meta
	h := &past{pass: p, known: len(p.Previous.Bindings) > 0 || len(p.Previous.Works) > 0, commit: meta.Source.Commit, held: map[string]string{}, scopes: scopes, read: map[string]earlier{}}
	for _, f := range meta.Held {
		h.held[f.Path] = f.Commit
	}
	return h
}

// commitOf is the commit whose version of the file is in force.
func (h *past) commitOf(path string) string {
	if c, ok := h.held[path]; ok {
		return c
	}
	return h.commit
}

// tree is the source at an earlier commit; the one of this pass is none.
func (h *past) tree(commit string) (fs.FS, bool) {
	fsys, ok := h.pass.Past[commit]
	return fsys, ok && commit != string(h.pass.Source.Revision)
}

// unit returns the objects that the file or build root gave in its last good version.
func (h *past) unit(path string) (objects []*manifest.Object, commit string, ok bool) {
	commit = h.commitOf(path)
	e, ok := h.at(commit)
	if !ok {
		return nil, commit, false
	}
	for _, u := range e.units {
		if u.Path == path && !u.Broken && !e.outside.units[path] {
			return u.Objects, commit, true
		}
	}
	return nil, commit, false
}

// at reads what an earlier commit has. Limits are those of today, so that what was refused all along is no good version.
func (h *past) at(commit string) (earlier, bool) {
	fsys, ok := h.tree(commit)
	if !ok {
		return earlier{}, false
	}
	e, ok := h.read[commit]
	if !ok {
		e.units, e.outside = h.pass.within(h.pass.Memo.parse(fsys, h.pass.Memo.earlier), h.scopes)
		h.read[commit] = e
	}
	return e, true
}

// object returns the last good version of one object, nil if there is none, and notes that file is held.
func (h *past) object(id api.ID, file string, held map[string]string) *manifest.Object {
	commit := h.commitOf(file)
	e, ok := h.at(commit)
	if !ok {
		return nil
	}
	units := e.units
	var all []*manifest.Object
	for _, u := range units {
		all = append(all, u.Objects...)
	}
	objects, _, _ := h.pass.Memo.earlier.Settle(units, manifest.NewScope(all, h.scopes), h.pass.Options.DefaultNamespace)
	for _, o := range objects {
		if o.ID.Unversioned() == id {
			held[file] = commit
			return o
		}
	}
	return nil
}

// names are the objects that can be read.
func (p *pass) names(units []manifest.Unit) map[api.ID]bool {
	have := map[api.ID]bool{}
	for _, u := range units {
		for _, o := range u.Objects {
			have[p.name(o)] = true
		}
	}
	return have
}

// name tells objects apart before they have their namespaces.
func (p *pass) name(o *manifest.Object) api.ID {
	id := o.ID.Unversioned()
	id.Namespace = cmp.Or(id.Namespace, p.Options.DefaultNamespace)
	return id
}

func sortedIDs[V any](m map[api.ID]V) []api.ID {
	ids := make([]api.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, api.ID.Compare)
	return ids
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
