package manifest

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/sops"
)

// Unit is one file, or all that one kustomization builds.
type Unit struct {
	// Path is the file, or the folder of the kustomization, relative to the source.
	Path string
	// Hash changes with the content: that of the file, or that of everything the build read. Empty if unknown.
	Hash     string
	Objects  []*Object
	Findings []render.Finding
	// Broken tells that something in it that may be an object could not be read. What was read from
	// it before must then not be taken for removed.
	Broken bool
}

// Builder builds the kustomization in the folder root. Inputs are the files and folders on which the
// result depends. An error may have a method Position() (file string, line int), and may join several.
type Builder func(fsys fs.FS, root string) (objects []api.Object, inputs []string, err error)

// Options of Read. The zero value reads without kustomize and without a cache.
type Options struct {
	// Build is called for each build root; nil means that kustomizations are refused.
	Build Builder
	// Holds tells whether a kustomization in the folder dir may take charge of the folder other when it refers to it, so
	// that other is not built on its own; nil means that it always may.
	Holds func(dir, other string) bool
	// Keys open what SOPS encrypted; nil means that there are none.
	Keys *sops.Keyring
	// Cache holds what earlier calls read; nil means none.
	Cache *Cache
	// MaxBytes limits a file, and an object with its aliases written out; 0 means 4 MiB.
	MaxBytes int
	// MaxObjects limits the objects of the tree; 0 means 100,000.
	MaxObjects int
	// MaxTotal limits the bytes of all files of manifests together, or of the objects in them where these are
	// larger; 0 means 256 MiB.
	MaxTotal int
	// MaxDepth limits mappings and lists within each other; 0 means 256.
	MaxDepth int
}

// Cache holds the units of the last Read by path and content, so that an unchanged file is not
// parsed, and an unchanged kustomization not built, again, and the objects that the last Settle put
// into another namespace. It belongs to one caller, who always reads with the same options. The zero
// value is empty.
type Cache struct {
	units  map[string]Unit
	sizes  map[string]int      // of the units, in bytes
	costs  map[string]int      // of opening what is encrypted in them
	inputs map[string][]string // of build roots
	placed map[*Object]*Object // by the object as read
}

// Read reads every object below the root of fsys. Units are in byte order of their paths. If fsys
// has a method Hash(name string) (string, error), as snapshots of a branch have, it is used in place of reading
// what is in the cache.
func Read(fsys fs.FS, o Options) []Unit {
	r := newReader(fsys, o)
	r.walk(".", nil)
	todo := make([]unread, len(r.units), len(r.units)+len(r.files))
	for i, u := range r.units { // what cannot be read at all
		todo[i] = unread{u.Path, func(string) Unit { return u }}
	}
	roots, unused := r.roots()
	for _, root := range roots {
		todo = append(todo, unread{root, r.build})
	}
	for _, dir := range unused {
		todo = append(todo, unread{dir, r.unused})
	}
	for _, file := range r.files {
		if !r.owned(path.Dir(file)) {
			todo = append(todo, unread{file, r.file})
		}
	}
	slices.SortStableFunc(todo, func(a, b unread) int { return strings.Compare(a.path, b.path) })
	r.units = nil
	for _, u := range todo {
		r.unit(u.path, u.read)
		r.limit()
	}
	if o.Cache != nil {
		r.new.placed = o.Cache.placed
		*o.Cache = r.new
	}
	return r.units
}

// Parse reads the text of one file, wherever it is from, as Read does. Of the options it takes the limits.
func Parse(name string, data []byte, o Options) Unit {
	r := newReader(nil, o)
	if len(data) > r.MaxBytes {
		return brokenUnit(name, r.tooLarge())
	}
	r.units = []Unit{r.parse(name, "", data)}
	r.limit()
	return r.units[0]
}

// Limits where Options names none.
const (
	maxBytes = 4 << 20
	maxDepth = 256
)

func newReader(fsys fs.FS, o Options) *reader {
	o.MaxBytes = cmp.Or(o.MaxBytes, maxBytes)
	o.MaxObjects = cmp.Or(o.MaxObjects, 100_000)
	o.MaxTotal = cmp.Or(o.MaxTotal, 256<<20)
	o.MaxDepth = cmp.Or(o.MaxDepth, maxDepth)
	return &reader{
		fsys:           fsys,
		Options:        o,
		old:            cmp.Or(o.Cache, &Cache{}),
		keys:           o.Keys.Read(),
		new:            Cache{units: map[string]Unit{}, sizes: map[string]int{}, costs: map[string]int{}, inputs: map[string][]string{}},
		kustomizations: map[string]kustomization{},
	}
}

type reader struct {
	Options
	fsys           fs.FS
	old            *Cache
	new            Cache
	files          []string                 // manifests
	kustomizations map[string]kustomization // by folder
	units          []Unit
	found          map[string]count // by code, of the unit that is being read
	keys           *sops.Reading
	spent, refused int         // by the keys, before that unit
	vault          *sops.Vault // what is encrypted in that unit
	block          any         // what SOPS added to the List that is being read; nil if nothing
	objects, bytes int         // of what was read
	written        int         // bytes of the objects of the unit that is being read, aliases written out
	over           bool        // there is more than may be: nothing else is read
}

// unread is a unit before it is read.
type unread struct {
	path string
	read func(path string) Unit
}

// unused is a component that nothing refers to.
func (r *reader) unused(dir string) Unit {
	return Unit{Path: dir, Findings: []render.Finding{{
		Severity: render.Info, Code: "unused-component", File: r.kustomizations[dir].file,
		Message: "nothing refers to this component, so nothing of it is used",
	}}}
}

var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

func (r *reader) walk(dir string, ig *ignores) {
	entries, err := fs.ReadDir(r.fsys, dir) // sorted; what could be read comes with the error
	if err != nil {
		r.broken(dir, err)
	}
	text, err := r.read(path.Join(dir, ignoreFile))
	if err == nil {
		ig, err = parseIgnores(ig, dir, string(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.broken(path.Join(dir, ignoreFile), err)
		return // whatever is here may be what nobody is to read
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || ig.ignored(name, e.IsDir()) {
			continue
		}
		switch {
		case e.IsDir():
			r.walk(name, ig)
		case slices.Contains(kustomizationNames, e.Name()):
			r.kustomizations[dir] = r.kustomization(dir, name)
		case slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)):
			r.files = append(r.files, name)
		case e.Type()&fs.ModeSymlink != 0:
			r.link(name)
		}
	}
}

// link looks at a link that has no name of a manifest. Folders are read where they are, not where a
// link to them is: links may lead in circles, and the same objects would be there twice.
func (r *reader) link(name string) {
	info, err := fs.Stat(r.fsys, name)
	switch {
	case err != nil:
		r.broken(name, err)
	case info.IsDir():
		r.units = append(r.units, Unit{Path: name, Findings: []render.Finding{{
			Severity: render.Info, Code: "link", File: name,
			Message: "a link to a folder is not followed; the folder is read where it is",
		}}})
	}
}

// broken adds a unit for a file or folder that cannot be read.
func (r *reader) broken(name string, err error) {
	r.units = append(r.units, brokenUnit(name, err))
}

func brokenUnit(name string, err error) Unit {
	code := "unreadable"
	if errors.Is(err, errTooLarge) {
		code = "too-large"
	}
	return Unit{Path: name, Broken: true, Findings: []render.Finding{{
		Severity: render.Error, Code: code, File: name, Message: pathless(err, name),
	}}}
}

// pathless is the text of err without the path that the finding has anyway.
func pathless(err error, name string) string {
	if pe, ok := err.(*fs.PathError); ok && pe.Path == name {
		return pe.Op + ": " + pe.Err.Error()
	}
	return err.Error()
}

var errTooLarge = errors.New("too large")

func (r *reader) read(name string) ([]byte, error) {
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("it is a folder with the name of a file")
	}
	data := make([]byte, 0, min(info.Size(), int64(r.MaxBytes))+1)
	for len(data) <= r.MaxBytes {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
	}
	return nil, r.tooLarge()
}

func (r *reader) tooLarge() error {
	return fmt.Errorf("%w: more than %d bytes; split the file, or name it in %s", errTooLarge, r.MaxBytes, ignoreFile)
}

// unit adds the unit that read makes of name. A panic in it is this unit's trouble alone.
func (r *reader) unit(name string, read func(string) Unit) {
	if r.over {
		r.units = append(r.units, Unit{Path: name, Broken: true})
		return
	}
	r.spent, r.refused = r.keys.Spent(), r.keys.Refused()
	defer func() {
		if p := recover(); p != nil {
			r.found, r.block = nil, nil
			r.broken(name, fmt.Errorf("reading it went wrong inside godwit: %v", p))
		}
	}()
	r.units = append(r.units, read(name))
}

// file reads one file of manifests.
func (r *reader) file(name string) Unit {
	hash, _ := r.hash(name)
	if u, ok := r.old.units[name]; ok && hash != "" && u.Hash == hash && r.keys.Spend(r.old.costs[name]) {
		return r.keep(name, u, r.old.sizes[name])
	}
	data, err := r.read(name)
	if err != nil {
		return brokenUnit(name, err)
	}
	if hash == "" {
		blob := canonical.Blob(data)
		hash = hex.EncodeToString(blob[:])
		if u, ok := r.old.units[name]; ok && u.Hash == hash && r.keys.Spend(r.old.costs[name]) {
			return r.keep(name, u, r.old.sizes[name])
		}
	}
	if r.bytes+len(data) > r.MaxTotal { // it would be given up anyway
		r.bytes += len(data)
		return Unit{Path: name, Broken: true}
	}
	u := r.parse(name, hash, data)
	return r.keep(name, u, max(len(data), r.written))
}

// keep takes a unit of that size into the cache. One of which something stayed closed since others came before it is read again.
func (r *reader) keep(name string, u Unit, size int) Unit {
	r.bytes += size
	if r.keys.Refused() == r.refused {
		r.new.units[name], r.new.sizes[name], r.new.costs[name] = u, size, r.keys.Spent()-r.spent
	}
	return u
}

// parse reads the documents of a file.
func (r *reader) parse(name, hash string, data []byte) Unit {
	r.written = 0
	u := Unit{Path: name, Hash: hash}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		data = nil
		u.Broken = true
		u.Findings = []render.Finding{{
			Severity: render.Error, Code: "broken-yaml", File: name, Line: 1, Message: "the file is in UTF-16; save it as UTF-8",
		}}
	}
	r.vault = r.keys.Open(name, map[string][]byte{name: data})
	for i, c := range split(data) {
		r.document(&u, c, i+1)
	}
	r.more(&u)
	return u
}

// find adds a finding to a unit that is being read, or counts it if there are many of its code.
func (r *reader) find(u *Unit, f render.Finding) {
	c := r.found[f.Code]
	if c.n++; c.n <= render.MostFindings {
		u.Findings = append(u.Findings, f)
	} else {
		c.worst = render.Worse(c.worst, f.Severity)
	}
	if r.found == nil {
		r.found = map[string]count{}
	}
	r.found[f.Code] = c
}

// count is how many findings of a code a unit has, and the worst severity of those that are not listed.
type count struct {
	n     int
	worst render.Severity
}

// more ends the unit's findings with what find did not list.
func (r *reader) more(u *Unit) {
	for _, code := range slices.Sorted(maps.Keys(r.found)) {
		if c := r.found[code]; c.n > render.MostFindings {
			u.Findings = append(u.Findings, render.More(u.Path, code, c.worst, c.n-render.MostFindings))
		}
	}
	r.found = nil
}

// document adds the objects of one document of a file.
func (r *reader) document(u *Unit, c chunk, number int) {
	t := &text{data: c.data, first: c.first}
	o := &Object{Origin: Origin{File: u.Path, Document: number, Line: cmp.Or(c.content, c.first)}, text: t}
	content, repeated, err := canonical.Decode(c.data)
	if err != nil {
		u.Broken = true
		f := o.Finding(render.Error, "broken-yaml", nil, "")
		f.Line, f.Message = syntax(err, c, f.Line)
		r.find(u, f)
		return
	}
	t.repeated = repeated
	if list, _ := content.([]any); slices.ContainsFunc(list, isManifest) {
		u.Broken = true
		r.find(u, o.Finding(render.Error, "list-of-objects", nil,
			"a list of objects is no manifest; put them into a kind: List, or a line with --- between them"))
		return
	}
	m, ok := content.(map[string]any)
	if !ok || m["apiVersion"] == nil && m["kind"] == nil {
		return
	}
	o.Content = m
	r.admit(u, o)
}

// isManifest tells what is meant to be an object from entries of other lists, such as JSON patches.
func isManifest(v any) bool {
	m, _ := v.(map[string]any)
	return m["apiVersion"] != nil && m["kind"] != nil
}

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): `)
	yamlQuoted = regexp.MustCompile("(?s)(anchor|cannot decode !!\\w+) ('.*'|`.*`)")
)

// withoutText is the message of an error, without the text of the file that the YAML library quotes:
// what cannot be read may be the value of a Secret.
func withoutText(err error) string { return yamlQuoted.ReplaceAllString(err.Error(), "$1") }

// syntax is the line and the message of an error of the YAML library.
func syntax(err error, c chunk, line int) (int, string) {
	message := strings.TrimPrefix(withoutText(err), "yaml: ")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		message = message[len(m[0]):]
		line = c.first + n - 1
		if strings.Contains(message, "did not find expected") {
			line++ // the library counts these from 0
		}
		line = min(line, c.first+bytes.Count(bytes.TrimRight(c.data, " \r\n"), []byte("\n"))) // not the line behind the last
	}
	if strings.Contains(message, "<document start>") {
		message += "; if these are several objects, put a line with --- between them"
	}
	return line, message
}

// build builds one kustomization.
func (r *reader) build(root string) Unit {
	file := r.kustomizations[root].file
	if r.Build == nil {
		return Unit{Path: root, Broken: true, Findings: []render.Finding{{
			Severity: render.Error, Code: "kustomize", File: file, Message: "kustomizations are not built here",
		}}}
	}
	if u, ok := r.old.units[root]; ok && u.Hash != "" && u.Hash == r.hashAll(r.old.inputs[root]) && r.keys.Spend(r.old.costs[root]) {
		r.new.inputs[root] = r.old.inputs[root]
		return r.keep(root, u, r.old.sizes[root])
	}
	r.written = 0
	u := Unit{Path: root}
	seen := witness{r.fsys, map[string][]byte{}}
	objects, inputs, err := r.Build(seen, root)
	if err != nil {
		u.Broken = true
		u.Findings = buildFindings(err, file)
		return u
	}
	r.vault = r.keys.Open(root, seen.files)
	for i, content := range objects {
		r.admit(&u, &Object{Content: content, Origin: Origin{File: file, Document: i + 1}})
	}
	r.more(&u)
	if u.Hash = r.hashAll(inputs); u.Hash == "" {
		r.bytes += r.written
		return u
	}
	r.new.inputs[root] = inputs
	return r.keep(root, u, r.written)
}

// buildFindings makes a finding of each error in err.
func buildFindings(err error, file string) (findings []render.Finding) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range many.Unwrap() {
			findings = append(findings, buildFindings(err, file)...)
		}
		return findings
	}
	f := render.Finding{Severity: render.Error, Code: "kustomize", File: file, Message: withoutText(err)}
	if at, ok := errors.AsType[interface {
		error
		Position() (string, int)
	}](err); ok {
		f.File, f.Line = at.Position()
	}
	return []render.Finding{f}
}

// hash is the hash of a file or folder, empty if fsys knows none.
func (r *reader) hash(name string) (string, error) {
	if fsys, ok := r.fsys.(interface {
		Hash(name string) (string, error)
	}); ok {
		return fsys.Hash(name)
	}
	return "", nil
}

// hashAll is a hash over files and folders, empty if there is none.
func (r *reader) hashAll(names []string) string {
	var all strings.Builder
	for _, name := range names {
		err := fs.WalkDir(r.fsys, name, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			hash, err := r.hash(name)
			if err != nil {
				return err
			}
			if hash == "" && !e.IsDir() {
				data, err := fs.ReadFile(r.fsys, name)
				if err != nil {
					return err
				}
				blob := canonical.Blob(data)
				hash = hex.EncodeToString(blob[:])
			}
			fmt.Fprintf(&all, "%s %q\n", hash, name)
			if hash != "" && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return ""
		}
	}
	if all.Len() == 0 {
		return ""
	}
	blob := canonical.Blob([]byte(all.String()))
	return hex.EncodeToString(blob[:])
}

// limit looks at the unit that was read last. With it there may be more than anybody has to read: it is broken then, and
// so is what comes after it, unread. What comes before it counts.
func (r *reader) limit() {
	u := &r.units[len(r.units)-1]
	r.objects += len(u.Objects)
	var f render.Finding
	switch {
	case r.over:
		return
	case r.objects > r.MaxObjects:
		f = render.Finding{Code: "too-many-objects", Message: fmt.Sprintf("more than %d objects; nothing from here on is read", r.MaxObjects)}
	case r.bytes > r.MaxTotal:
		f = render.Finding{Code: "too-large", Message: fmt.Sprintf("more than %d bytes of manifests; nothing from here on is read. Split the source, or name what is no manifest in %s", r.MaxTotal, ignoreFile)}
	default:
		return
	}
	r.over = true
	f.Severity, f.File = render.Error, u.Path
	*u = Unit{Path: u.Path, Broken: true, Findings: []render.Finding{f}}
}
