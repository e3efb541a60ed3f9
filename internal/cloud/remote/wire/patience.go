package wire

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// patienceLeast and patienceMost bound how long a launch may take: below, all would be given up that are made.
	patienceLeast, patienceMost = time.Minute, 24 * time.Hour
	// followLeast and followMost bound how often a provider can have Get called.
	followLeast, followMost = time.Second, 10 * time.Minute
)

// Patience returns the message for how long launches may take.
func Patience(p lifecycle.Patience) *providerv1.Patience {
	return &providerv1.Patience{LaunchMs: p.Launch.Milliseconds(), RegistrationMs: p.Registration.Milliseconds(), FollowMs: p.Follow.Milliseconds()}
}

// ParsePatience reads how long launches of a provider may take.
func ParsePatience(in *providerv1.Patience, accepts bool) (lifecycle.Patience, error) {
	p, err := parsePatience(in)
	if err == nil && p.Follow > 0 && !accepts {
		err = errors.New("patience.follow_ms is for launches that are decided later; list CAPABILITY_ACCEPTED_LAUNCHES, or leave it out")
	}
	return p, err
}

// ParseClassPatience reads how long launches of a class may take, of a provider for all of whose classes longest is enough.
func ParseClassPatience(in *providerv1.Patience, longest lifecycle.Patience) (lifecycle.Patience, error) {
	p, err := parsePatience(in)
	if err != nil {
		return p, err
	}
	for _, each := range []struct {
		field         string
		got, of, most time.Duration
	}{
		{"launch_ms", p.Launch, longest.Launch, cmp.Or(longest.Launch, lifecycle.LaunchTimeout)},
		{"registration_ms", p.Registration, longest.Registration, cmp.Or(longest.Registration, lifecycle.RegistrationTimeout)},
	} {
		if each.got > each.most {
			return p, fmt.Errorf("patience.%s is %d; Describe says that no class needs more than %d", each.field, each.got.Milliseconds(), each.most.Milliseconds())
		}
	}
	if p.Follow > 0 && longest.Follow == 0 {
		return p, errors.New("patience.follow_ms is for launches that are decided later, which Describe says that there are none of")
	}
	return lifecycle.Patience{
		Launch: cmp.Or(p.Launch, longest.Launch), Registration: cmp.Or(p.Registration, longest.Registration), Follow: cmp.Or(p.Follow, longest.Follow),
	}, nil
}

func parsePatience(in *providerv1.Patience) (p lifecycle.Patience, err error) {
	for _, each := range []struct {
		field       string
		ms          int64
		to          *time.Duration
		least, most time.Duration
	}{
		{"launch_ms", in.GetLaunchMs(), &p.Launch, patienceLeast, patienceMost},
		{"registration_ms", in.GetRegistrationMs(), &p.Registration, patienceLeast, patienceMost},
		{"follow_ms", in.GetFollowMs(), &p.Follow, followLeast, followMost},
	} {
		if each.ms != 0 && (each.ms < each.least.Milliseconds() || each.ms > each.most.Milliseconds()) {
			return p, fmt.Errorf("patience.%s is %d; it may be 0, for the usual, or %d to %d", each.field, each.ms, each.least.Milliseconds(), each.most.Milliseconds())
		}
		*each.to = time.Duration(each.ms) * time.Millisecond
	}
	if p.Launch > 0 && p.Registration > 0 && p.Registration < p.Launch {
		return p, fmt.Errorf("patience.registration_ms is %d, less than launch_ms, which is %d: both are from the NodeClaim's creation", in.GetRegistrationMs(), in.GetLaunchMs())
	}
	return p, nil
}
