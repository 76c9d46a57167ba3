// Package cli owns what the commands of Berth share: the world a command is given ([Env]), the flags every one has
// ([Globals]), how its errors are told and which code it ends with ([Execute]), and how names that are reserved for a
// later version are refused.
//
// A command is a value: built by a New in internal/cli/submit, worker or operator from an Env, run by Execute, and so
// run by a test as by a main. Nothing here reads the process's environment, arguments or streams but [System].
//
//	System() -> Env -> New(Env) *cobra.Command -> Execute(ctx, command, env) -> exit code
package cli
