package aws

import (
	"sync"
)

// zones knows the ids of the zones in which a class has a subnet. A zone's name means
// another zone in every account; its id does not.
type zones struct {
	mu  sync.Mutex
	ids map[string]string // by name
}

// learn notes the id of a zone.
func (z *zones) learn(name, id string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.ids == nil {
		z.ids = map[string]string{}
	}
	z.ids[name] = id
}

// id returns the id of a zone; empty: it is not known.
func (z *zones) id(name string) string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.ids[name]
}

// name returns the name of a zone, or its id where no class has a subnet in it.
func (z *zones) name(id string) string {
	z.mu.Lock()
	defer z.mu.Unlock()
	for name, of := range z.ids {
		if of == id {
			return name
		}
	}
	return id
}
