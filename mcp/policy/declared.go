package policy

import (
	"encoding/json"
	"fmt"

	"github.com/sluicegate/sluice/internal/resource"
)

// resources reads the resources of a declaration: named ones, which have a path, and
// patterns, which stand for all that lie there.
func (r *reader) resources(raw json.RawMessage) {
	list := r.list(raw, "resources", maxResources)
	r.d.resources, r.d.areas = make(map[string]declared, len(list)), areas{}
	for i, raw := range list {
		what := fmt.Sprintf("resources[%d]", i)
		m := r.object(raw, what, "resource", "resourcePath", "effect", "limits", "resourcePattern", "where")
		if m == nil {
			continue
		}
		if raw, ok := m["effect"]; ok {
			r.text(raw, what+".effect", maxName)
		}
		var limits Limits
		if raw, ok := m["limits"]; ok {
			limits = r.limits(raw, what+".limits")
		}
		if _, ok := m["resourcePattern"]; ok {
			r.pattern(m, what, limits)
		} else {
			r.named(m, what, limits)
		}
	}
}

func (r *reader) named(m map[string]json.RawMessage, what string, limits Limits) {
	if _, ok := m["where"]; ok {
		r.problem("%s: where narrows a resourcePattern, and there is none", what)
	}
	name, ok := r.text(m["resource"], what+".resource", maxName)
	path, pathOK := r.path(m["resourcePath"], what+".resourcePath")
	if !ok || !pathOK || !r.inside(path, what+".resourcePath") {
		return
	}
	if _, twice := r.d.resources[name]; twice {
		r.problem("%s: resource %s is declared twice", what, quote(name))
	}
	r.d.resources[name] = declared{path, limits}
}

func (r *reader) pattern(m map[string]json.RawMessage, what string, limits Limits) {
	for _, key := range []string{"resource", "resourcePath"} {
		if _, ok := m[key]; ok {
			r.problem("%s: give either resource and resourcePath, or resourcePattern", what)
			break
		}
	}
	text, ok := r.text(m["resourcePattern"], what+".resourcePattern", resource.MaxLength)
	if !ok {
		return
	}
	where := map[string]string{}
	if raw, ok := m["where"]; ok && json.Unmarshal(raw, &where) != nil {
		r.problem("%s.where must be an object of expressions", what)
		return
	}
	if r.patterns++; r.patterns > maxPatterns {
		r.problem("%s: at most %d patterns", what, maxPatterns)
		return
	}
	if r.conditions += len(where); r.conditions > maxConditions {
		r.problem("%s.where: at most %d expressions in a declaration", what, maxConditions)
		return
	}
	a, err := newArea(text, where, limits, "declaration:"+text)
	if err != nil {
		r.problem("%s: %v", what, err)
		return
	}
	if limits.empty() {
		r.problem("%s: a resourcePattern is there for its limits, and has none", what)
	}
	if r.inside(a.pattern.Root(), what+".resourcePattern") {
		r.d.areas.add(a)
	}
}

// inside reports whether a path lies in the namespace, and says so if it does not.
func (r *reader) inside(path, what string) bool {
	if r.d.Namespace == "" || resource.Within(r.d.Namespace, path) {
		return true
	}
	r.problem("%s %s is outside the namespace %s", what, quote(path), quote(r.d.Namespace))
	return false
}

// limits reads the engineering limits of a resource. A key that is not known would be a
// limit that nobody applies, so there must be none.
func (r *reader) limits(raw json.RawMessage, what string) (l Limits) {
	m := r.object(raw, what, "minValue", "maxValue", "allowedValues", "destinations")
	l.MinValue = r.number(m, "minValue", what)
	l.MaxValue = r.number(m, "maxValue", what)
	if raw, ok := m["allowedValues"]; ok {
		l.AllowedValues = r.list(raw, what+".allowedValues", maxListed)
	}
	if raw, ok := m["destinations"]; ok {
		if json.Unmarshal(raw, &l.Destinations) != nil || l.Destinations == nil {
			r.problem("%s.destinations must be an array of strings", what)
			l.Destinations = nil
		}
	}
	l.check(func(format string, args ...any) { r.problem(what+": "+format, args...) })
	return l
}

func (r *reader) number(m map[string]json.RawMessage, key, what string) json.Number {
	raw, ok := m[key]
	if !ok {
		return ""
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		r.problem("%s.%s must be a finite number", what, key)
		return ""
	}
	return json.Number(raw)
}
