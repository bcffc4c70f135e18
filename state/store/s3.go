package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"holon/internal/visible"
	"holon/state"
)

// s3 is a bucket of a server that speaks S3.
type s3 struct {
	client         *minio.Client
	bucket, prefix string
}

// How long an object may take: answerWithin, and as long as its bytes take at the slowest.
const (
	answerWithin = 10 * time.Second
	slowest      = 256 << 10 // bytes a second
	tries        = 3
)

func within(size int64) time.Duration { return answerWithin + time.Duration(size/slowest)*time.Second }

// place is what a URL says.
type place struct {
	bucket, prefix, endpoint, region string
	secure                           bool
}

// CheckURL reports what is wrong with the URL of a bucket, an *Error with CodeURL.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (p place, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" { // the cause may quote a secret
		return p, badURL("give s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION",
			"the store is not the URL of a bucket")
	}
	if u.User != nil {
		return p, badURL("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "the URL of the store has credentials in it, "+
			"and settings are shown")
	}
	query, err := url.ParseQuery(u.RawQuery)
	for name := range query {
		if name != "endpoint" && name != "region" && name != "insecure" {
			err = errors.New(name)
		}
	}
	if err != nil {
		return p, badURL("use endpoint, region and insecure", "a parameter of the store is not known")
	}
	p = place{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), endpoint: "s3.amazonaws.com",
		region: query.Get("region"), secure: true}
	if p.prefix != "" {
		p.prefix += "/"
	}
	if given := query.Get("endpoint"); given != "" {
		return p, p.setEndpoint(given, query.Get("insecure") == "true")
	}
	return p, nil
}

// setEndpoint sets the server. One without TLS is of this host, unless insecure is true.
func (p *place) setEndpoint(text string, insecure bool) error {
	end, err := url.Parse(text)
	if err != nil || end.Host == "" || end.User != nil || strings.Trim(end.Path, "/") != "" || end.RawQuery != "" ||
		end.Scheme != "https" && end.Scheme != "http" {
		return badURL("write endpoint=https://HOST:PORT", "the endpoint of the store is not a URL of a host")
	}
	p.endpoint, p.secure = end.Host, end.Scheme == "https"
	addr, err := netip.ParseAddr(end.Hostname())
	if local := err == nil && addr.IsLoopback() || end.Hostname() == "localhost"; !p.secure && !local && !insecure {
		return badURL("use https, or add insecure=true where the network is trusted",
			"the endpoint of the store is http, and not of this host")
	}
	return nil
}

func badURL(hint, message string) error {
	return &state.Error{Code: CodeURL, Param: "store", Message: message, Hint: hint}
}

// Keys are credentials of a bucket. Without an ID those are used that the file of AWS_SHARED_CREDENTIALS_FILE or the
// metadata of the machine have.
type Keys struct{ ID, Secret, Session string }

// OpenS3 opens a bucket by its URL. It asks nothing yet.
func OpenS3(text string, keys Keys) (Bucket, error) {
	p, err := parse(text)
	if err != nil {
		return nil, err
	}
	found := credentials.NewStaticV4(keys.ID, keys.Secret, keys.Session)
	if keys.ID == "" {
		found = credentials.NewChainCredentials([]credentials.Provider{&credentials.FileAWSCredentials{}, &credentials.IAM{}})
	}
	transport, err := minio.DefaultTransport(p.secure)
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = answerWithin
	client, err := minio.New(p.endpoint, &minio.Options{Creds: found, Secure: p.secure, Region: p.region,
		Transport: noRedirect{transport}, MaxRetries: tries})
	if err != nil {
		return nil, &state.Error{Code: CodeURL, Param: "store", Message: "the bucket cannot be opened", Err: err,
			Hint: "give s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION"}
	}
	return &s3{client, p.bucket, p.prefix}, nil
}

// noRedirect answers a redirection as an error: requests are signed for one host.
type noRedirect struct{ http.RoundTripper }

func (t noRedirect) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Del("Location")
	}
	return resp, err
}

func (b *s3) Get(ctx context.Context, name string) (io.ReadCloser, string, error) {
	core := minio.Core{Client: b.client}
	body, info, _, err := core.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.failed("read "+name, name, err)
	}
	return reader{body, b, name}, info.ETag, nil
}

// reader gives errors of a body their codes.
type reader struct {
	io.ReadCloser
	bucket *s3
	name   string
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = r.bucket.failed("read "+r.name, r.name, err)
	}
	return n, err
}

func (b *s3) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, within(size))
	defer cancel()
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, body, size, minio.PutObjectOptions{})
	return b.failed("write "+name, name, err)
}

func (b *s3) PutIf(ctx context.Context, name string, data []byte, etag string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within(int64(len(data))))
	defer cancel()
	o := minio.PutObjectOptions{DisableMultipart: true}
	if o.SetMatchETag(etag); etag == "" {
		o.SetMatchETagExcept("*")
	}
	info, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	if r := minio.ToErrorResponse(err); err != nil && (r.StatusCode == http.StatusPreconditionFailed ||
		r.StatusCode == http.StatusConflict || etag != "" && r.Code == minio.NoSuchKey) {
		return "", errChanged
	}
	return info.ETag, b.failed("write "+name, name, err)
}

func (b *s3) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix,
			Recursive: true}) {
			err := b.failed("list "+prefix, prefix, o.Err)
			if !yield(Object{strings.TrimPrefix(o.Key, b.prefix), o.LastModified}, err) || err != nil {
				return
			}
		}
	}
}

func (b *s3) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return b.failed("remove "+name, name, b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}))
}

// failed is the error of what was done with an object, nil for none.
func (b *s3) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	e := &state.Error{Code: CodeAway, Param: "store", Err: err, Hint: "look whether the server of the bucket works",
		Message: "the bucket " + b.bucket + " does not answer as it should: " + what}
	switch {
	case r.Code == minio.NoSuchKey:
		return missing(name)
	case r.Code == minio.NoSuchBucket:
		e.Code, e.Message, e.Hint = CodeURL, "there is no bucket "+b.bucket, "make it, or correct the URL of the store"
	case r.StatusCode == http.StatusInsufficientStorage, strings.Contains(r.Code, "Full"),
		strings.Contains(r.Code, "Quota"):
		e.Code, e.Message, e.Hint = CodeFull, "the bucket "+b.bucket+" is full", "make room in it, or raise its quota"
	case r.StatusCode == http.StatusUnauthorized, r.StatusCode == http.StatusForbidden:
		e.Code, e.Message = CodeDenied, "the bucket "+b.bucket+" denies to "+what
		e.Hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may read, write, list and delete there"
	}
	if e.Err = errors.New(visible.OneLine(err.Error(), 300)); errors.Is(err, context.Canceled) {
		e.Err = err
	}
	return e
}
