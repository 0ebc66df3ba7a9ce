package gate

import (
	"context"

	"github.com/sluicegate/sluice/identity"
)

type (
	principalKey struct{} // of who the application says it is
	foundKey     struct{} // of whom a gate has found
)

// WithPrincipal returns a context that says who sends a request, for an application
// that authenticates callers itself and mounts [Gate.Identity] inside of that. p must be
// verified: its Subject is what limits hang on, and an empty Tier is the default one.
// Credentials in the request are then not looked at. A zero Principal is nobody: the
// caller is known by its address.
func WithPrincipal(ctx context.Context, p identity.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, &p)
}

// PrincipalFrom returns the principal of a request that has passed a gate, or that
// [WithPrincipal] has set. It reports false for a caller that is known by its address.
func PrincipalFrom(ctx context.Context) (p identity.Principal, ok bool) {
	for _, key := range []any{foundKey{}, principalKey{}} {
		if p, ok := ctx.Value(key).(*identity.Principal); ok && p.Subject != "" {
			return *p, true
		}
	}
	return p, false
}

// pastKey is the context key of a gate's past.
type pastKey struct{ *Gate }

// past is what a request has been through at one gate. It is a context of its own, and
// has room for the request's writer: each saves every request an allocation.
type past struct {
	context.Context
	gate              *Gate
	client            client
	principal         *identity.Principal // nil is unknown yet
	preAuth, identity bool
	out               writer // of the mount point that made the past
}

// Value returns the past itself, or the principal that was found.
func (p *past) Value(key any) any {
	switch k := key.(type) {
	case pastKey:
		if k.Gate == p.gate {
			return p
		}
	case foundKey:
		if p.principal != nil {
			return p.principal
		}
	}
	return p.Context.Value(key)
}
