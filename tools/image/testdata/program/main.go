// Command program is what the tests put into an image.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println("program", os.Args[1]) }
