// Package deploy holds what is in deploy/ to what the code does: the policies there are
// the generated ones, what templates refer to is there, and names fit. Nothing here talks to a
// cloud. With -update the policies are written anew.
package deploy
