package clusterapi

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
)

// ReadCertificate returns the PEM of a certificate that is given as PEM or as base64 of it; nil: none is.
func ReadCertificate(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	data := []byte(text)
	if !strings.Contains(text, "-----BEGIN") {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err != nil {
			return nil, errors.New("it is neither PEM nor base64")
		}
	}
	if block, _ := pem.Decode(data); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it has no certificate in PEM")
	}
	return data, nil
}
