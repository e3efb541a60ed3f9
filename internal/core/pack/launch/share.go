package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// share is pods that are launched for together: those of several classes that may go to the
// same places and are nearly of one size, those of one class, or those of one class that
// are to go to one domain, because rules between pods say so.
type share struct {
	members []member
	count   int
	// size is what one pod needs; of several classes the mean.
	size quantity.Vector
	// key is the ledger's index of the key that decides, -1 if none does; domain is the
	// one chosen.
	key    int
	domain int32
	bins   []uint64 // the offerings that are right
	// anywhere are those that were right before the class was divided.
	anywhere []uint64
	perBin   int // most on one node; 0: no limit
	// labelConflict: its ports, or what it asks of labels that nodes leave open, may conflict
	// with those of another share.
	labelConflict bool
	// low and high are where the next pods are drawn from the members, from either end.
	low, high int
}

// member is a class of a share, and the stage at which it is launched for.
type member struct {
	class *model.PodClass
	st    *model.Stage
}

// lead returns the class of a share that has only one.
func (sh *share) lead() (*model.PodClass, *model.Stage) { return sh.members[0].class, sh.members[0].st }

// plain reports whether no rule concerns the share's pods.
func (sh *share) plain() bool {
	return sh.key < 0 && sh.perBin == 0 && !sh.labelConflict && len(sh.members[0].class.Keys) == 0
}

// side is a domain that pods of a class may be divided to.
type side struct {
	domain int32
	value  string
	bins   []uint64
	price  float64 // of what is sold there
	count  int
}

// divided is what domains a share may be divided to, for others that are like it.
type divided struct {
	key   int
	size  quantity.Vector
	bins  []uint64
	sides []side
}

// sets are sets that are equal for very many, and never changed.
type sets [][]uint64

// shared returns a set that is equal to the one given.
func (s *sets) shared(set []uint64) []uint64 {
	for _, o := range *s {
		if slices.Equal(o, set) {
			return o
		}
	}
	set = slices.Clone(set)
	if len(*s) < setsMax {
		*s = append(*s, set)
	}
	return set
}

// setsMax is how many sets are kept to be shared.
const setsMax = 32
