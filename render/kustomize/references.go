package kustomize

import (
	"bytes"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
)

// references surveys all that k refers to and returns how many kustomizations are built for it.
func (p *page) references(k *types.Kustomization) (size int) {
	if len(k.HelmCharts) > 0 || k.HelmGlobals != nil {
		p.refuse(p.written("helmCharts", "helmGlobals", "helmChartInflationGenerator"),
			"Helm is not run; render the chart with helm template and put the result into the repository")
	}
	p.schema = p.schema || len(k.OpenAPI) > 0
	if schema, ok := k.OpenAPI["path"]; ok {
		p.refuse(schema, "openapi.path is not used, since a schema of its own would change the builds of others; leave it out")
	}
	for _, ref := range k.Resources {
		size += p.resource(ref, false)
	}
	for _, ref := range k.Components {
		size += p.resource(ref, true)
	}
	for _, ref := range files(k) {
		p.must(ref, ref)
	}
	for _, s := range sources(k) {
		p.sources(s)
	}
	for _, config := range slices.Concat(k.Generators, k.Transformers, k.Validators) {
		p.plugin(config)
	}
	return size
}

// files are the references of k that can only be files.
func files(k *types.Kustomization) (refs []string) {
	refs = slices.Concat(k.Crds, k.Configurations)
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {
		refs = append(refs, patch.Path)
	}
	for _, patch := range k.PatchesStrategicMerge { // a path, or the patch itself
		if !strings.ContainsAny(string(patch), "\n{") {
			refs = append(refs, string(patch))
		}
	}
	for _, r := range k.Replacements {
		refs = append(refs, r.Path)
	}
	return slices.DeleteFunc(refs, func(ref string) bool { return ref == "" })
}

// sources are where the generators of k take their pairs of key and value from.
func sources(k *types.Kustomization) (sources []types.KvPairSources) {
	for _, g := range k.ConfigMapGenerator {
		sources = append(sources, g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		sources = append(sources, g.KvPairSources)
	}
	return sources
}

func (p *page) sources(s types.KvPairSources) {
	for _, ref := range s.EnvSources { // FixKustomization has moved EnvSource here
		p.must(ref, ref)
	}
	for _, ref := range s.FileSources {
		file := ref
		if _, after, ok := strings.Cut(ref, "="); ok {
			file = after
		}
		p.must(ref, file)
	}
	for _, literal := range s.LiteralSources {
		if strings.Index(literal, "=") < 1 {
			p.refuse(literal, "a literal of a generator is not key=value") // kustomize would print it
		}
	}
}

// must surveys the path of a file that must be there; it stands on the page in ref.
func (p *page) must(ref, file string) {
	name, ok := p.local(ref, file)
	if !ok {
		return
	}
	switch info, err := fs.Stat(p.fsys, name); {
	case err != nil:
		p.refuse(ref, "%s: %w", file, missing(err))
	case info.IsDir():
		p.refuse(ref, "%s: is a folder, not a file", file)
	}
}

// missing is err, in other words if a file does not exist.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no such file or folder")
	}
	return err
}

// local is the path of file within the source, if that is where it leads. It stands on the page in ref.
func (p *page) local(ref, file string) (name string, ok bool) {
	switch name = path.Join(p.dir, file); {
	case remote(ref) || remote(file):
		p.refuse(ref, "%s: what is remote is not fetched; copy it into the repository", ref)
	case path.IsAbs(file):
		p.refuse(ref, "%s: the path must be relative to the kustomization", ref)
	case name == ".." || strings.HasPrefix(name, "../"):
		p.refuse(ref, "%s: leads out of the source", ref)
	default:
		return name, true
	}
	return "", false
}

// resource surveys a reference to a file or to the folder of another kustomization.
func (p *page) resource(ref string, onlyFolder bool) (size int) {
	name, ok := p.local(ref, ref)
	if !ok {
		return 0
	}
	switch info, err := fs.Stat(p.fsys, name); {
	case err != nil:
		p.refuse(ref, "%s: %w", ref, missing(err))
	case info.IsDir():
		return p.folder(name, p, ref)
	case onlyFolder:
		p.refuse(ref, "%s: a component is a folder", ref)
	}
	return 0
}

// plugin surveys an entry of generators, transformers or validators: the configuration of a plugin,
// or the path of a file that holds some.
func (p *page) plugin(config string) {
	p.configs(config, []byte(config))
	if strings.Contains(config, "\n") {
		return
	}
	name, ok := p.local(config, config)
	if !ok {
		return
	}
	info, err := fs.Stat(p.fsys, name)
	switch {
	case err != nil: // kustomize has the words for what it takes it for
	case info.IsDir():
		p.refuse(config, "%s: a folder cannot configure plugins here, since what it builds cannot be looked through first; name its files", config)
	default:
		data, err := read(p.fsys, name)
		if err != nil {
			p.refuse(config, "%w", err)
			return
		}
		p.configs(config, data)
	}
}

// configs surveys the documents that configure plugins.
func (p *page) configs(ref string, data []byte) {
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if docs.Decode(&doc) != nil {
			return // the end, or nothing that kustomize can read either
		}
		if config := aliased(doc.Content[0]); config.Kind == yaml.MappingNode {
			if version, kind := text(config, "apiVersion"), text(config, "kind"); version != "builtin" || kind == "HelmChartInflationGenerator" {
				p.refuse(ref, "%s: plugins, functions and Helm are not run; only the builtin generators and transformers are", kind)
			}
			p.configFiles(ref, config, false)
		}
	}
}

// fileFields are the fields of builtin plugins that name files.
var fileFields = []string{"path", "paths", "files", "envs", "env", "targetFilePath"}

// configFiles refuses what is remote in the fields of n that name files. Kustomize forgives the case of field names.
func (p *page) configFiles(ref string, n *yaml.Node, inField bool) {
	switch n = aliased(n); n.Kind {
	case yaml.ScalarNode:
		_, value, _ := strings.Cut(n.Value, "=")
		if inField && (remote(n.Value) || remote(value)) {
			p.refuse(ref, "%s: what is remote is not fetched; copy it into the repository", n.Value)
		}
	case yaml.SequenceNode:
		for _, e := range n.Content {
			p.configFiles(ref, e, inField)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			field := aliased(n.Content[i]).Value
			p.configFiles(ref, n.Content[i+1], slices.ContainsFunc(fileFields, func(f string) bool { return strings.EqualFold(f, field) }))
		}
	}
}

func aliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text is the value of a key of a mapping, empty if it has none.
func text(n *yaml.Node, key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return aliased(n.Content[i+1]).Value
		}
	}
	return ""
}

var (
	withScheme = regexp.MustCompile(`(?i)^(git::)?[a-z][a-z0-9+.-]*://`)
	withUser   = regexp.MustCompile(`(?i)^(git::)?[a-z][a-z0-9-]*@`)
	onGitHub   = regexp.MustCompile(`(?i)^(git::)?github\.com[/:]`)
	withRef    = regexp.MustCompile(`\?(ref|version|timeout|submodules)=`)
)

// remote tells whether kustomize would fetch or clone ref, or would take it for something that it could.
func remote(ref string) bool {
	if u, err := url.Parse(ref); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return true
	}
	return withScheme.MatchString(ref) || withUser.MatchString(ref) || onGitHub.MatchString(ref) ||
		withRef.MatchString(ref) || len(ref) >= 5 && strings.EqualFold(ref[:5], "git::")
}

// written is the first of names that is a key of the kustomization.
func (p *page) written(names ...string) string {
	for _, name := range names {
		if lineOf(p.root, name) > 0 {
			return name
		}
	}
	return ""
}

// nodeBytes is how long a scalar counts as one value more.
const nodeBytes = 64

// explodes tells whether aliases make more than maxNodes values of a text, or of a text within it,
// as patches are, or long ones of fewer. Kustomize writes aliases out without counting.
func explodes(data []byte) bool { return nodes(data, 3) > maxNodes }

// nodes counts the values in data, each alias as what it stands for, up to a little above maxNodes.
func nodes(data []byte, levels int) (total int) {
	if levels == 0 || bytes.IndexByte(data, '&') < 0 || bytes.IndexByte(data, '*') < 0 {
		return 0
	}
	defer func() {
		if recover() != nil {
			total = maxNodes + 1 // whoever breaks the parser does not get further
		}
	}()
	counted := map[*yaml.Node]int{}
	var count func(n *yaml.Node) int
	count = func(n *yaml.Node) int {
		n = aliased(n)
		if known, ok := counted[n]; ok {
			return known
		}
		counted[n] = maxNodes + 1 // what contains itself has no end
		sum := 1
		if n.Kind == yaml.ScalarNode {
			sum += len(n.Value)/nodeBytes + nodes([]byte(n.Value), levels-1)
		}
		for _, child := range n.Content {
			sum = min(sum+count(child), maxNodes+1)
		}
		counted[n] = sum
		return sum
	}
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if docs.Decode(&doc) != nil {
			return total
		}
		total = min(total+count(&doc), maxNodes+1)
	}
}
