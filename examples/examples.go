// Package examples holds the example repositories that the documentation, the demo and the tests
// share.
package examples

import "embed"

// Quickstart is the folder quickstart: the fleet of the tutorial.
//
//go:embed all:quickstart
var Quickstart embed.FS
