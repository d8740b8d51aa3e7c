// Package web serves a recording over HTTP: answers, live views, the tables of the tools, datasets,
// findings, profiles and the page. It measures nothing and does not decide what is recorded. It
// requires a token, and TLS on addresses that other machines can reach.
package web
