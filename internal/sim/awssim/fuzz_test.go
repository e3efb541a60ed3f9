package awssim_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// FuzzCall: whatever a signed request says, there is an answer, never a crash, and an
// answer that refuses is never 500.
func FuzzCall(f *testing.F) {
	for _, body := range []string{
		"Action=DescribeSubnets&Filter.1.Name=tag:a&Filter.1.Value.1=*&MaxResults=5&NextToken=x",
		"Action=DescribeInstanceTypes&Filter.1.Name=supported-virtualization-type&Filter.1.Value.1=hvm",
		"Action=CreateLaunchTemplate&LaunchTemplateName=abc&LaunchTemplateData.ImageId=ami-1&LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1=sg-1&TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=k",
		"Action=CreateFleet&Type=instant&ClientToken=t&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=abc&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large&LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-0b000000000000000&TargetCapacitySpecification.TotalTargetCapacity=1",
		"Action=DescribeInstances&InstanceId.1=i-1", "Action=TerminateInstances&InstanceId.1=i-", "Action=RebootInstances&InstanceId.1=i-1&DryRun=true", "Action=CreateTags&ResourceId.1=x&Tag.1.Key=a",
		"Action=CreateInstanceProfile&InstanceProfileName=a&Tags.member.1.Key=k", "Action=DescribeSpotPriceHistory&MaxResults=9999", "Action=RunInstances&DryRun=true",
		"Action=DescribeImages&ImageId.1=ami-&Owner.1=self", "Action=DescribeCapacityReservations&CapacityReservationId.1=cr-1", "a.1.b=c&a.1=d&=&.=.",
	} {
		f.Add(body)
	}
	sim, err := awssim.New(awssim.Options{Unlimited: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if values, err := url.ParseQuery(body); err != nil || values.Get("Action") == "" {
			return
		}
		for _, service := range []string{"ec2", "iam"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://awssim.local/", bytes.NewBufferString(body))
			if err != nil {
				t.Fatal(err)
			}
			sign(t, r, sim.Options().Credentials, service, body, 0)
			resp, err := sim.Transport().RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusInternalServerError {
				t.Errorf("%s %s: %s", service, body, text)
			}
		}
	})
}
