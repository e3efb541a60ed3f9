package aws

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// pageMost is how many things a page of a list has.
const pageMost = 1000

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// tagFilters returns the filters that match what has all of the tags; "*" is any value.
func tagFilters(tags map[string]string) []types.Filter {
	var out []types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if tags[key] == "*" {
			out = append(out, filter("tag-key", key))
			continue
		}
		out = append(out, filter("tag:"+key, tags[key]))
	}
	return out
}

func tagsOf(tags []types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

// tagList returns tags in the order of their keys.
func tagList(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}

func nodeClaimTag(claim string) types.Tag {
	return types.Tag{Key: aws.String(awsv1.TagNodeClaim), Value: aws.String(claim)}
}
