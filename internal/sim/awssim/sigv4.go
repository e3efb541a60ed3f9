package awssim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// skewMax is how far the date of a signature may be from the server's.
const skewMax = 15 * time.Minute

const signingAlgorithm = "AWS4-HMAC-SHA256"

// signature is what an Authorization header says.
type signature struct {
	key, date, region, service, hmac string
	headers                          []string
}

func parseSignature(header string) (signature, error) {
	rest, ok := strings.CutPrefix(header, signingAlgorithm+" ")
	if !ok {
		return signature{}, &apiError{http.StatusForbidden, "MissingAuthenticationToken", "Request is missing Authentication Token"}
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[k] = v
	}
	scope := strings.Split(parts["Credential"], "/")
	if len(scope) != 5 || scope[4] != "aws4_request" || parts["Signature"] == "" {
		return signature{}, &apiError{http.StatusBadRequest, "IncompleteSignature", "The request signature does not conform to AWS standards"}
	}
	return signature{
		key: scope[0], date: scope[1], region: scope[2], service: scope[3],
		hmac: parts["Signature"], headers: strings.Split(parts["SignedHeaders"], ";"),
	}, nil
}

// verify checks a request's signature (version 4) against the account's credentials.
func (c Credentials) verify(r *http.Request, body []byte, sig signature, now time.Time) error {
	if sig.key != c.AccessKey {
		return &apiError{http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials"}
	}
	if c.SessionToken != r.Header.Get("X-Amz-Security-Token") {
		return &apiError{http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid"}
	}
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", stamp)
	if err != nil || !strings.HasPrefix(stamp, sig.date) {
		return &apiError{http.StatusBadRequest, "IncompleteSignature", "Date must be in ISO-8601 'basic format'. Got '" + stamp + "'"}
	}
	if d := now.Sub(at); d > skewMax || d < -skewMax {
		return &apiError{http.StatusForbidden, "RequestExpired", "Request has expired. Timestamp date is " + stamp}
	}
	if !slices.Contains(sig.headers, "host") || !slices.Contains(sig.headers, "x-amz-date") {
		return &apiError{http.StatusForbidden, "SignatureDoesNotMatch", "'Host' and 'X-Amz-Date' must be in SignedHeaders"}
	}
	scope := strings.Join([]string{sig.date, sig.region, sig.service, "aws4_request"}, "/")
	toSign := strings.Join([]string{signingAlgorithm, stamp, scope, hashHex([]byte(canonicalRequest(r, body, sig.headers)))}, "\n")
	key := []byte("AWS4" + c.SecretKey)
	for _, part := range []string{sig.date, sig.region, sig.service, "aws4_request"} {
		key = mac(key, part)
	}
	if want := hex.EncodeToString(mac(key, toSign)); !hmac.Equal([]byte(want), []byte(sig.hmac)) {
		return &apiError{
			http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.",
		}
	}
	return nil
}

// canonicalRequest is the text whose hash is signed. The payload's hash is computed here,
// whatever a header claims.
func canonicalRequest(r *http.Request, body []byte, headers []string) string {
	var lines strings.Builder
	for _, name := range headers {
		var values []string
		switch name {
		case "host":
			values = []string{r.Host}
		case "content-length":
			values = []string{fmt.Sprint(len(body))}
		default:
			values = r.Header.Values(name)
		}
		for i, v := range values {
			values[i] = strings.Join(strings.Fields(v), " ")
		}
		fmt.Fprintf(&lines, "%s:%s\n", name, strings.Join(values, ","))
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	// All services but S3 encode the path twice.
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = uriEncode(s)
	}
	return strings.Join([]string{
		r.Method, strings.Join(segments, "/"), canonicalQuery(r.URL.Query()), lines.String(), strings.Join(headers, ";"), hashHex(body),
	}, "\n")
}

func canonicalQuery(q url.Values) string {
	var pairs []string
	for k, values := range q {
		for _, v := range values {
			pairs = append(pairs, uriEncode(k)+"="+uriEncode(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// uriEncode encodes all bytes but the unreserved ones of RFC 3986.
func uriEncode(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

func hashHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
