// Package alert turns the findings of repeated diagnoses into one stream of changes, and sends it
// to Alertmanagers, webhooks and a log. A finding that comes and goes within a minute is one alert.
package alert
