// Package loop runs what looks at the world again and again, at times of its own choosing.
package loop

import (
	"context"
	"time"
)

// Looker is a loop that can be driven from outside, one look at a time.
type Looker interface {
	// Look takes one look and does what follows. It wants the next after the pause; zero:
	// when there is news.
	Look(ctx context.Context) (pause time.Duration)
}

// Newsreader is a Looker that also looks when there is news.
type Newsreader interface {
	Looker
	News() <-chan struct{}
}

// Run looks at once, and then as often as look asks for or there is news, until the
// context ends. News may be nil.
func Run(ctx context.Context, look func(context.Context) time.Duration, news <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-news:
		}
		if pause := look(ctx); pause > 0 {
			timer.Reset(pause)
		}
	}
}
