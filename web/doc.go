// Package web is the dashboard: pages, the JSON API under them and the live events that keep them fresh.
//
// It owns what a browser sees, one hub that follows the broker for all browsers, and who may act (a token) or read. It
// never decides anything about jobs: every page shows what the commands show, read by the queue's own verbs, and every
// action is the verb that the command of that name uses. What only the commands know (why a job waits, how a spec is
// prepared and sent) is handed in.
//
//	broker --five consumers--> hub --index--> /api/v1/... --> pages
//	                            '---wake----> /api/v1/events (server-sent) --> pages read again what they show
//
// The hub is loading (the index is being filled), live, or cut off: the broker does not answer. Cut off, it keeps what
// it knows, says so on every page, and follows again when the broker is back.
package web
