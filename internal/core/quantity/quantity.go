// Package quantity holds amounts of resources: how much a pod asks for, how much a
// node has. Amounts are int64 in one unit per resource, so that sums are exact and
// comparisons need no parsing: millicores for cpu, bytes for memory and storage, counts
// for everything else.
//
// List is the form at the edges, by name. Vector is the form inside the solver, by
// position in a Space.
//
// Amounts saturate: each is within [-Max, Max], and so is what the functions here return. A pod or
// a node may claim what no int64 holds, and a sum that wraps around would pass for a small one.
package quantity

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Names of the resources every node has.
const (
	CPU              = "cpu"
	Memory           = "memory"
	EphemeralStorage = "ephemeral-storage"
	Pods             = "pods"
	// Nodes is the pseudo resource that pool limits use to count nodes.
	Nodes = "nodes"
)

// AttachPrefix begins the names of the resources that count the volumes of one CSI
// driver. What does not mention such a resource has no limit of it.
const AttachPrefix = "attachable-volumes-csi-"

// DevicePrefix begins the names of the resources that stand for devices (dynamic resource allocation),
// or for pods that can have some. They mean something within one snapshot only, and no object of the
// API mentions them.
const DevicePrefix = "devices:"

// Max is the largest amount, and -Max the least: what is beyond counts as that much. The sum of two
// amounts and their difference are exact; of more, see Add.
const Max = math.MaxInt64 / 4

// Unlimited is more than anyone asks for.
const Unlimited = Max

// Clamp returns the amount that is nearest to n.
func Clamp(n int64) int64 { return max(-Max, min(Max, n)) }

// Add returns a + b as an amount.
func Add(a, b int64) int64 { return Clamp(Clamp(a) + Clamp(b)) }

// Sub returns a - b as an amount.
func Sub(a, b int64) int64 { return Clamp(Clamp(a) - Clamp(b)) }

// Mul returns a * n as an amount.
func Mul(a, n int64) int64 {
	high, low := bits.Mul64(magnitude(a), magnitude(n))
	product := int64(Max)
	if high == 0 && low < Max {
		product = int64(low)
	}
	if (a < 0) != (n < 0) {
		return -product
	}
	return product
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// List is amounts by resource name. A missing name means zero, but see AttachPrefix. Lists are shared
// between values and never changed once they are handed out.
type List map[string]int64

// Plus returns the sum of two lists as a new list.
func (l List) Plus(o List) List {
	sum := make(List, len(l)+1)
	maps.Copy(sum, l)
	sum.Add(o)
	return sum
}

// Add adds o to l in place.
func (l List) Add(o List) {
	for name, amount := range o {
		l[name] = Add(l[name], amount)
	}
}

// MinusFloor returns l - o with nothing below zero, as a new list.
func (l List) MinusFloor(o List) List {
	rest := make(List, len(l))
	for name, amount := range l {
		rest[name] = max(0, Sub(amount, o[name]))
	}
	return rest
}

// Fits reports whether every amount of l is within o.
func (l List) Fits(o List) bool {
	for name, amount := range l {
		if amount > o.Room(name) {
			return false
		}
	}
	return true
}

// Room returns how much there is of a resource, where l is what there is to be used.
func (l List) Room(name string) int64 {
	amount, ok := l[name]
	if !ok && strings.HasPrefix(name, AttachPrefix) {
		return Unlimited
	}
	return amount
}

// String returns the amounts in the order of their names.
func (l List) String() string {
	parts := make([]string, 0, len(l))
	for _, name := range l.Names() {
		parts = append(parts, fmt.Sprintf("%s=%d", name, l[name]))
	}
	return strings.Join(parts, " ")
}

// Names returns the resource names, sorted.
func (l List) Names() []string { return slices.Sorted(maps.Keys(l)) }

// Space is the list of resource names that vectors are indexed by. It is sorted, so
// that the same names give the same space.
type Space []string

// SpaceOf returns the space of all names in the given lists.
func SpaceOf(lists ...List) Space {
	seen := map[string]bool{}
	for _, l := range lists {
		for name := range l {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Vector returns l in the space. Names outside the space are dropped.
func (s Space) Vector(l List) Vector {
	v := make(Vector, len(s))
	s.Fill(v, l)
	return v
}

// Fill writes l in the space to v.
func (s Space) Fill(v Vector, l List) {
	for i, name := range s {
		v[i] = Clamp(l[name])
	}
}

// Room returns l in the space as what there is to be used, rather than what is asked for.
func (s Space) Room(l List) Vector {
	v := make(Vector, len(s))
	s.FillRoom(v, l)
	return v
}

// FillRoom writes to v what Room returns.
func (s Space) FillRoom(v Vector, l List) {
	for i, name := range s {
		v[i] = Clamp(l.Room(name))
	}
}

// List returns v by name, without zeros.
func (s Space) List(v Vector) List {
	l := List{}
	for i, amount := range v {
		if amount != 0 {
			l[s[i]] = amount
		}
	}
	return l
}

// Vector is amounts by position in a Space. Vectors of one solve have equal length. A difference of
// two elements, as in Times, is exact.
type Vector []int64

// Fits reports whether v is within free in every dimension.
func (v Vector) Fits(free Vector) bool {
	for i, amount := range v {
		if amount > free[i] {
			return false
		}
	}
	return true
}

// AddN adds n times o to v in place.
func (v Vector) AddN(o Vector, n int64) {
	for i, amount := range o {
		if n != 1 { // as nearly always
			amount = Mul(amount, n)
		}
		v[i] = Add(v[i], amount)
	}
}

// Times returns how many copies of need fit into free on top of used; at most most. What
// is not asked for may be short already, as for kube-scheduler.
func Times(free, used, need Vector, most int64) int64 {
	for i, amount := range need {
		if amount > 0 {
			most = min(most, (free[i]-used[i])/amount)
		}
	}
	return max(0, most)
}
