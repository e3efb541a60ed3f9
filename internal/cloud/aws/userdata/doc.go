// Package userdata writes what an instance of EC2 runs at its start: the user's own part, and
// ours, which makes it a node of the cluster. Each family of images has a form of its own.
//
// The user's part is untrusted input: it is parsed, never pasted into a structure that it
// could break out of, and where that cannot be (a shell script, PowerShell) it stands
// before ours.
//
// Read node.go (what is known of the node), then userdata.go, mime.go (AL2023 and AL2), bottlerocket.go and windows.go.
package userdata
