// Package dir is the source that reads files and folders of manifests and watches them. It survives what editors, deploy tools and
// mounted ConfigMaps do to files: a file is read when it has rested, one that is broken keeps what it had, and a change of one file
// reads that file only.
package dir
