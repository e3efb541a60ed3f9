package aws

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Account is an account that is reached by itself, whatever the environment says of others:
// a simulated one.
type Account struct {
	// URL is where all its services answer.
	URL, Region                        string
	AccessKey, SecretKey, SessionToken string
}

// Config returns how the account is reached, and nothing else.
func (a *Account) Config() aws.Config {
	return aws.Config{
		Region: a.Region, BaseEndpoint: &a.URL, HTTPClient: awshttp.NewBuildableClient().WithTimeout(requestPatience),
		Credentials: credentials.NewStaticCredentialsProvider(a.AccessKey, a.SecretKey, a.SessionToken),
	}
}
