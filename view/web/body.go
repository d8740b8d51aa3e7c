package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// readBody decodes the JSON object of a request into the value that into points to. An unknown
// field is an error.
func readBody(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var large *http.MaxBytesError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &large):
		return tooLarge("the body is too large", fmt.Sprintf("the limit is %d bytes", large.Limit))
	case errors.As(err, &wrong):
		f := badBody(
			"the body can't be read: %s where %s should be", wrong.Value, jsonType(wrong.Type),
		)
		if wrong.Field != "" {
			f.Message = wrong.Field + ": " + wrong.Value + " where " + jsonType(
				wrong.Type,
			) + " should be"
		}
		return f
	case errors.Is(err, io.EOF):
		return badBody("the body is empty")
	case err != nil:
		return badBody("the body can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badBody("the body has more than one object")
	}
	return nil
}

func badBody(format string, args ...any) *fault {
	f := badRequest(format, args...)
	f.Hint = "send one JSON object with the fields of docs/openapi.yaml"
	return f
}

// jsonType returns the name of the JSON type that is decoded into a Go type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return jsonType(t.Elem())
	}
	return "an object"
}
