package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// share is pods that the linear program treats as one item: the pods of several classes that
// may go to the same offerings and are nearly of one size, those of one class, or those of one
// class that are to go to one domain because of rules between pods.
type share struct {
	members []member
	count   int
	// size is what one pod needs; of several classes the mean.
	size quantity.Vector
	// key is the ledger's index of the topology key that the class was divided by, and domain the
	// domain of the share; -1: it was not divided.
	key    int
	domain int32
	bins   []uint64 // the offerings where the pods may be
	// anywhere is bins before the class was divided.
	anywhere []uint64
	perBin   int // how many may be on one node; 0: no limit
	// labelConflict: its host ports, or what it asks of labels that nodes leave open, may conflict
	// with those of another share.
	labelConflict bool
	// low and high are the members that the next pods are taken from, at either end.
	low, high int
}

// member is a class of a share, and the stage (the preferences kept) at which nodes are
// launched for it.
type member struct {
	class *model.PodClass
	st    *model.Stage
}

// lead returns the first class of a share; most shares have only one.
func (sh *share) lead() (*model.PodClass, *model.Stage) { return sh.members[0].class, sh.members[0].st }

// plain reports whether no rule between pods concerns the share's pods, and no conflict.
func (sh *share) plain() bool {
	return sh.key < 0 && sh.perBin == 0 && !sh.labelConflict && len(sh.members[0].class.Keys) == 0
}

// side is a domain that pods of a class may be divided to.
type side struct {
	domain int32
	value  string
	bins   []uint64
	price  float64 // of nodes there, on average
	count  int
}

// divided is the domains that a share may be divided to, kept for shares that are alike.
type divided struct {
	key   int
	size  quantity.Vector
	bins  []uint64
	sides []side
}

// sets are sets of bins that many shares have in common. They are never changed.
type sets [][]uint64

// shared returns a set equal to the one given, which is kept for the next that ask.
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

// setsMax is how many sets are kept.
const setsMax = 32
