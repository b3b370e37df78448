// Package manifest turns a tree of YAML and JSON files into objects that remember the file, the
// document and the line they came from.
//
// [Read] walks a tree and returns its files and build roots as units, [Settle] makes one set of
// objects with unique names of them, and [Decode] reads an object into its Go type, strictly.
//
// Values are what sigs.k8s.io/yaml makes of the text, which is YAML 1.1 as Kubernetes sees it; the
// lines come from a second reading that happens only when a line is asked for. The result depends
// on nothing but the tree and the options, is ordered by path, and everything wrong with the input
// is a [render.Finding], all of them at once: one bad document costs neither its neighbours nor
// the walk, and no bytes make Read panic. The values of a Secret appear in no message.
//
// The codes of its findings, which are stable:
//
//	broken-yaml        a document cannot be read
//	unreadable         a file or folder cannot be read, or a link leads out
//	too-large          a file, or an object with its aliases written out
//	too-many-objects   in the tree
//	list-of-objects    a document that is a list of manifests
//	missing-kind, missing-api-version, missing-name, generate-name
//	wrong-type         a value of another type than its field has
//	yaml-boolean       a word such as on or no where a text is wanted
//	unknown-field      (Decode)
//	duplicate-key      a key stands twice: an error in Karmada's kinds (Decode), else a warning
//	more-findings      there are more of a code in one file than are listed
//	kustomize          a kustomization cannot be built
//	sops-changed       an object is not as SOPS encrypted it, or has what no checksum of SOPS covers
//	sops-metadata      what SOPS added to it makes no sense
//	sops-misplaced     what kind of object it is, is encrypted
//	unused-component   (info) a component to which nothing refers
//	link               (info) a link to a folder
//	duplicate-object   (Settle) the same object stands twice
//	cluster-scoped     (Settle, warning) a namespace where none belongs
//
// [EditTaints] changes the taints of a Cluster in the text of its file and leaves all else as it is.
//
// What SOPS encrypted stays as it is, in Content; Sealed knows what it stands for (render/sops).
//
// It leaves to others: what the fields of a policy mean (render/policy), how a kustomization is
// built (render/kustomize), and what happens to an object that is missing because its file is
// broken ([Unit] says which files are).
//
// The rules for documents follow https://yaml.org/spec/1.1/ and kubectl; those for ignore files
// https://git-scm.com/docs/gitignore.
package manifest
