// Package browser drives the dashboard's pages with a real headless Chromium, against berth up on simulated GPUs.
//
// It owns nothing but its tests: that charts have the measured points, live updates arrive, filters, forms, actions and
// keys work, a dead broker is told of, no page logs an error, and axe finds nothing wrong. Where there is no Chromium
// they say that they did not run. With BERTH_SCREENSHOTS=DIR they also make the pictures of the documentation.
package browser
