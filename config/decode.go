package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A place is where a field of a Config was given.
type place struct {
	pos   Pos
	key   string
	given bool // false if the place is that of the map the key is absent from
}

// places finds the place of a field by its address.
type places map[any]place

// A decoder fills structs from nodes, as their tags say. It goes on after a problem.
type decoder struct {
	env    func(string) (string, bool)
	read   func(string) ([]byte, error)
	places places
	report func(Problem)
}

func (d *decoder) fail(n *node, key string, code Code, format string, args ...any) {
	d.report(Problem{Pos: n.pos, Code: code, Key: key, Message: fmt.Sprintf(format, args...)})
}

// value decodes n into v. It reports and leaves v alone if n is not of v's kind.
func (d *decoder) value(n *node, v reflect.Value, f fieldInfo, key string) {
	d.places[v.Addr().Interface()] = place{n.pos, key, true}
	t := v.Type()
	switch {
	case n.kind == null && n.text == "":
		d.fail(n, key, CodeType, `has no value; give it one, or remove the key (null is the default, {} is a map without keys)`)
	case t.Kind() == reflect.Pointer:
		if n.kind == null {
			return
		}
		v.Set(reflect.New(t.Elem()))
		d.value(n, v.Elem(), f, key)
	case t == freeType:
		v.Set(reflect.ValueOf(Free{n.free()}))
	case t == secretType:
		d.secret(n, v, f, key)
	case f.keyed != "":
		d.keyed(n, v, f, key)
	case t.Kind() == reflect.Slice:
		d.list(n, v, f, key)
	case isStruct(t):
		d.structure(n, v, key)
	default:
		d.scalar(n, v, f, key)
	}
}

// structure decodes every key of a struct, and the default of each that is absent.
func (d *decoder) structure(n *node, v reflect.Value, key string) {
	if n.kind != mapping {
		d.fail(n, key, CodeType, "must be a map of keys, not %s", n.kind)
		return
	}
	for _, f := range describe(v.Type()).fields {
		target, at := v.FieldByIndex(f.index), join(key, f.key)
		if have := n.get(f.key); have != nil && !(have.value.kind == null && have.value.text != "") {
			d.value(have.value, target, f, at)
			continue
		}
		if f.required {
			d.fail(n, at, CodeRequired, "is missing")
		}
		d.absent(n, target, f, at)
	}
}

// absent gives a field its default.
func (d *decoder) absent(n *node, v reflect.Value, f fieldInfo, key string) {
	switch {
	case f.has && f.typ.Kind() == reflect.Slice:
		initial := &node{pos: n.pos, kind: list}
		for _, text := range strings.Split(f.initial, "|") {
			initial.items = append(initial.items, &node{pos: n.pos, kind: loose, text: text})
		}
		d.value(initial, v, f, key)
	case f.has:
		d.value(&node{pos: n.pos, kind: loose, text: f.initial}, v, f, key)
	case isStruct(v.Type()) && !f.required:
		d.structure(&node{pos: n.pos, kind: mapping}, v, key)
	}
	d.places[v.Addr().Interface()] = place{n.pos, key, false}
}

// keyed decodes a map into a list whose elements have their key as a field.
func (d *decoder) keyed(n *node, v reflect.Value, f fieldInfo, key string) {
	if n.kind != mapping {
		d.fail(n, key, CodeType, "must be a map, not %s", n.kind)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.fields), len(n.fields)))
	for i, have := range n.fields {
		elem := v.Index(i)
		elem.FieldByName(f.keyed).SetString(have.name)
		d.value(have.value, elem, fieldInfo{}, join(key, have.name))
		d.places[elem.Addr().Interface()] = place{have.pos, join(key, have.name), true}
	}
}

// list decodes a list. A bare scalar is a list of one.
func (d *decoder) list(n *node, v reflect.Value, f fieldInfo, key string) {
	items := n.items
	switch elem := v.Type().Elem(); {
	case n.kind == list:
	case n.kind == mapping || isStruct(elem):
		d.fail(n, key, CodeType, "must be a list, not %s", n.kind)
		return
	default:
		items = []*node{n}
	}
	if err := f.inLength(len(items)); err != nil {
		d.fail(n, key, CodeRange, "%v", err)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	f.keyed = ""
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", key, i)
		if v.Type().Elem().Kind() != reflect.Struct && len(items) == 1 && n.kind != list {
			at = key
		}
		d.value(item, v.Index(i), f, at)
	}
}

// secret reads ${NAME} and file:PATH, the only two ways to give one.
func (d *decoder) secret(n *node, v reflect.Value, f fieldInfo, key string) {
	if n.kind != text && n.kind != loose {
		d.fail(n, key, CodeType, "must be text, not %s", n.kind)
		return
	}
	set := func(s string) { v.Set(reflect.ValueOf(Secret{text: s})) }
	name, isEnv := strings.CutPrefix(n.text, "${")
	path, isFile := strings.CutPrefix(n.text, "file:")
	switch {
	case isEnv && strings.HasSuffix(name, "}"):
		name = strings.TrimSuffix(name, "}")
		value, ok := d.env(name)
		if !ok || value == "" {
			d.fail(n, key, CodeSecret, "the environment variable %s is not set; set it, or use file:PATH", name)
			return
		}
		set(value)
	case isFile:
		path = beside(n.pos.File, path)
		data, err := d.read(path)
		if err != nil {
			d.fail(n, key, CodeSecret, "cannot read the secret: %v", withoutPath(err, path))
			return
		}
		if set(strings.TrimSpace(string(data))); len(strings.TrimSpace(string(data))) == 0 {
			d.fail(n, key, CodeSecret, "%s is empty", path)
		}
	case f.secret == "may" && !strings.Contains(n.text, "${") && !hasPassword(n.text):
		v.Set(reflect.ValueOf(Secret{n.text, true}))
	default:
		d.fail(n, key, CodeSecret, "a secret must not stand in the file; write ${NAME} for an environment variable or file:PATH")
	}
}

// withoutPath says which file an error is about exactly once.
func withoutPath(err error, path string) error {
	if pe, ok := err.(*os.PathError); ok {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// hasPassword reports whether a URI carries a password: user:password@host.
func hasPassword(uri string) bool {
	_, rest, _ := strings.Cut(uri, "://")
	user, _, found := strings.Cut(rest, "@")
	return found && strings.Contains(user, ":")
}

func (d *decoder) scalar(n *node, v reflect.Value, f fieldInfo, key string) {
	code, err := setScalar(n, v)
	if err == nil {
		code, err = f.check(v)
	}
	switch {
	case err != nil:
		d.fail(n, key, code, "%v", err)
	case f.format == "path" || f.format == "jwks" && !strings.Contains(v.String(), "://"):
		v.SetString(beside(n.pos.File, v.String()))
	}
}

// beside returns the path that a file means by another one: relative paths begin where
// the file is, so that a configuration works from every directory.
func beside(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// setScalar gives v the value of n.
func setScalar(n *node, v reflect.Value) (Code, error) {
	if n.kind == mapping || n.kind == list {
		return CodeType, fmt.Errorf("must be a single value, not %s", n.kind)
	}
	if s, ok := v.Addr().Interface().(scalar); ok {
		if n.kind == number {
			return CodeUnit, fmt.Errorf("%s has no unit; %s", n.text, rateForm)
		}
		return CodeUnit, s.parse(n.text)
	}
	if v.Type() == durationType {
		return setDuration(n, v)
	}
	switch v.Kind() {
	case reflect.String:
		if n.kind != text && n.kind != loose {
			return CodeType, fmt.Errorf(`must be text; put quotes around it: "%s"`, n.text)
		}
		v.SetString(n.text)
	case reflect.Bool:
		if n.text != "true" && n.text != "false" {
			return CodeType, fmt.Errorf("must be true or false, not %q", n.text)
		}
		v.SetBool(n.text == "true")
	case reflect.Int64:
		i, err := parseInteger(n)
		if err != nil {
			return codeOfNumber(n), err
		}
		v.SetInt(i)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.text, 64)
		if err != nil || n.kind == text || !(x > 0) || math.IsInf(x, 0) {
			return CodeRange, fmt.Errorf("must be a number above zero, not %q", n.text)
		}
		v.SetFloat(x)
	}
	return "", nil
}

func setDuration(n *node, v reflect.Value) (Code, error) {
	if n.kind == number {
		return CodeUnit, fmt.Errorf("%s has no unit; write a time such as %ss or %sms", n.text, n.text, n.text)
	}
	dur, err := parseDuration(n.text)
	if err != nil {
		return CodeUnit, err
	}
	v.SetInt(int64(dur))
	return "", nil
}

// parseInteger reads a whole number, negative ones too, so that the message can say so.
func parseInteger(n *node) (int64, error) {
	digits, negative := strings.CutPrefix(n.text, "-")
	i, err := parseCount(digits)
	switch {
	case n.kind == text && strings.Trim(n.text, "0123456789") == "" && n.text != "":
		return 0, cmp.Or(err, fmt.Errorf("must be a number, without quotes"))
	case n.kind == text:
		return 0, fmt.Errorf("must be a number alone, not %q; the key's name says the unit", n.text)
	case n.kind == boolean || n.kind == null:
		return 0, fmt.Errorf("must be a whole number, not %s", n.text)
	case negative:
		i = -i
	}
	return i, err
}

func codeOfNumber(n *node) Code {
	if n.kind == text {
		return CodeUnit
	}
	return CodeRange
}

// check compares a value with the bounds, the choices and the format of its tags.
func (f fieldInfo) check(v reflect.Value) (Code, error) {
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		if len(f.enum) > 0 && !slices.Contains(f.enum, s) {
			return CodeValue, fmt.Errorf("%q is none of %s%s", s, strings.Join(f.enum, ", "), suggestion(s, f.enum))
		}
		if test, ok := formats[f.format]; ok {
			return test(s)
		}
	case reflect.Int64:
		if len(f.enum) > 0 && !slices.Contains(f.enum, strconv.FormatInt(v.Int(), 10)) {
			return CodeValue, fmt.Errorf("%d is none of %s", v.Int(), strings.Join(f.enum, ", "))
		}
		return CodeRange, f.inBounds(v)
	}
	return "", nil
}

// inLength compares the length of a list with its bounds. An empty list where an absent
// one means everything would be read as everything, and be meant as nothing.
func (f fieldInfo) inLength(n int) error {
	if f.min != "" && int64(n) < number64(f.min) {
		return errors.New("is an empty list, which can never match; leave the key out for all")
	}
	if f.max != "" && int64(n) > number64(f.max) {
		return fmt.Errorf("has %d elements; at most %s are allowed", n, f.max)
	}
	return nil
}

func (f fieldInfo) inBounds(v reflect.Value) error {
	bound := func(text string) int64 {
		if v.Type() == durationType {
			d, _ := time.ParseDuration(text) // a tag; the schema test reads them all
			return int64(d)
		}
		return number64(text)
	}
	switch n := v.Int(); {
	case f.min != "" && n < bound(f.min) && n < 0 && !f.required:
		return fmt.Errorf("%v is negative; leave the key out for no limit", v.Interface())
	case f.min != "" && n < bound(f.min):
		return fmt.Errorf("%v is too small; the least is %s", v.Interface(), f.min)
	case f.max != "" && n > bound(f.max):
		return fmt.Errorf("%v is too large; the most is %s", v.Interface(), f.max)
	}
	return nil
}

// free returns the node as plain values.
func (n *node) free() any {
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.name] = f.value.free()
		}
		return m
	case list:
		l := make([]any, len(n.items))
		for i, item := range n.items {
			l[i] = item.free()
		}
		return l
	case number:
		if i, err := strconv.ParseInt(n.text, 10, 64); err == nil {
			return i
		}
		x, _ := strconv.ParseFloat(n.text, 64) // the YAML parser has read it
		return x
	case boolean:
		return n.text == "true"
	case null:
		return nil
	}
	return n.text
}
