// Package webhook posts results to an address, signed, one at a time.
//
// It owns the form of a request: the body is the result as it is stored, Berth-Delivery is its id, and Berth-Signature is
// "t=<unix seconds>,v1=<hex of HMAC-SHA256 over t, a point and the body>". It never keeps anything: the queue remembers
// what was accepted and brings the rest again.
package webhook
