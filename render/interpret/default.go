package interpret

import "github.com/godwit-gitops/godwit/api"

// defaults are what an API server fills in and decisions depend on. A field that is null counts as
// missing.
var defaults = map[kind]func(api.Object) api.Object{
	deployment:  oneReplica,
	replicaSet:  oneReplica,
	statefulSet: oneReplica,
	job:         defaultJob,
	service: func(o api.Object) api.Object {
		return defaulted(o, "ClusterIP", "spec", "type")
	},
}

// Default is o with the admission defaults that need no knowledge of scopes; o itself if nothing is
// missing. The caller puts namespaced objects without a namespace into "default".
//
// Differs from Karmada: there the API server fills these in before a policy sees the object.
func Default(o api.Object) api.Object {
	if fill := defaults[kindOf(o)]; fill != nil {
		return fill(o)
	}
	return o
}

func oneReplica(o api.Object) api.Object { return defaulted(o, int64(1), specReplicas...) }

// defaultJob: a Job that names neither number runs one pod once; with parallelism alone it is a
// work queue and has no completions.
func defaultJob(o api.Object) api.Object {
	if at(o, "spec", "parallelism") == nil && at(o, "spec", "completions") == nil {
		o = defaulted(o, int64(1), "spec", "completions")
	}
	return defaulted(o, int64(1), "spec", "parallelism")
}

func defaulted(o api.Object, value any, path ...string) api.Object {
	if at(o, path...) != nil || at(o, path[:len(path)-1]...) != nil && object(at(o, path[:len(path)-1]...)) == nil {
		return o // set already, or the object is malformed, which the member's API will say better
	}
	return with(o, value, path...)
}
