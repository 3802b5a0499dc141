// Command leasehold is the agent and everything that an operator does with it.
package main

import "os"

func main() { os.Exit(execute(os.Args[1:])) }
