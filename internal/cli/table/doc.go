// Package table owns how a list is printed: one description of its columns, six forms (table, wide, json, jsonl, csv,
// name).
//
// On a terminal a table fits the width: columns that may shrink do, then the least important ones go. In a pipe
// nothing is cut or coloured. JSON and CSV carry the values as they are: RFC 3339 times, MiB, no colours; a CSV
// column is named as the JSON field. It never fetches anything and keeps no state.
package table
