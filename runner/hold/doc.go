// Package hold is the process of a lease: it does nothing, so that a place stays taken.
//
// It owns one way of waiting: until the process it was told to watch has ended, or, without one, until it is ended
// itself. Under a shim it makes a lease a run like any other: the shim keeps the GPU locks, the expiry and the session's
// deadline, and a worker that was restarted adopts it. The watch goes on while no worker is there.
//
// Like the shim it takes its process over in an init function and imports only light packages: a holder must not carry
// a broker for eight hours.
//
//	(exec) waiting --- the watched process ends ---> exit 0
//	          '------- a signal (release, expiry, cancel) ends it
package hold
