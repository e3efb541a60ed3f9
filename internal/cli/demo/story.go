package demo

import (
	"context"

	"github.com/dovetail-sh/dovetail/examples"
)

func kwokStory() story {
	return story{examples.KWOK(), "examples/kwok", []string{"KWOKNodeClass", "NodePool"}, []act{(*stage).up, (*stage).refuse, (*stage).down}}
}

func awsStory() story {
	return story{examples.AWS(), "examples/aws", []string{"EC2NodeClass", "NodePool"}, []act{(*stage).up, (*stage).interrupt, (*stage).refuse, (*stage).down}}
}

// play is the story: up, a refusal, down.
func (s *stage) play(ctx context.Context) error {
	if err := s.await(ctx, "the NodePool is Ready", actPatience, func(now *state) bool { return now.poolsReady }); err != nil {
		return err
	}
	for _, act := range s.story.acts {
		if err := act(s, ctx); err != nil {
			return err
		}
	}
	return nil
}
