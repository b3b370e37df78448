// Package watch tells when to look again.
//
// A signal says that something may have changed, not what: the receiver reads it all and compares.
// So signals are never queued: while one waits to be received, more of them are that one. Every
// channel of this package holds one signal, and is closed once the context has ended and the
// goroutine behind it is gone, for which its owner may wait by receiving until then.
//
// A folder is watched with inotify or what the system has, and looked at from time to time as
// well, because network file systems and mounts of a container report nothing. Kubernetes updates a
// mounted ConfigMap by swapping its link ..data, which is an event in the folder that is watched.
// Folders named .git are left out. Links are not followed; what changes behind them is noticed by
// the slow look. Of single files, which may be links into such a mount, every folder on the way is watched.
package watch
