// Package natsembed runs a NATS server with JetStream inside this process: for `berth up`, and for every test that
// needs a broker. It is the only package that imports nats-server.
//
// It owns how a broker of Berth is set up (store, durability, pings, token, TLS), the lock on its store folder and its
// life. It never creates a stream or a bucket (package queue does), and writes no file outside its store folder.
//
// The life of a server:
//
//	Options --Start--> running --Shutdown--> stopped (may be started again on the same folder)
//	   |
//	   '--> error: folder in use, port in use, store unreadable, an address open to others without TLS
//
// deploy/nats/server.conf holds the same settings for a server of its own; a test keeps the two equal.
package natsembed
