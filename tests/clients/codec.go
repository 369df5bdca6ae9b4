// Objects of every kind with every field filled at random, in JSON and in
// protobuf: so that somebody else's reader and writer of either can be held
// against Kubernetes' own.
//
//	clients codec make COUNT SEED   prints `JSON TAB PROTOBUF`, COUNT lines a kind
//	clients codec compare           reads `JSON TAB JSON TAB PROTOBUF`, all of one object
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	protoserializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"
)

// codec is Kubernetes' own reader and writer of both forms.
type codec struct {
	scheme *runtime.Scheme
	json   *json.Serializer
	proto  *protoserializer.Serializer
}

func newCodec() (*codec, error) {
	kinds := runtime.NewScheme()
	err := first(scheme.AddToScheme(kinds), apiextensionsv1.AddToScheme(kinds), apiregistrationv1.AddToScheme(kinds))
	return &codec{
		scheme: kinds,
		json:   json.NewSerializerWithOptions(json.DefaultMetaFactory, kinds, kinds, json.SerializerOptions{}),
		proto:  protoserializer.NewSerializer(kinds, kinds),
	}, err
}

// runCodec is the subcommand; it never returns where it fails.
func runCodec(args []string) {
	c, err := newCodec()
	if err != nil {
		fail("%v", err)
	}
	switch {
	case len(args) == 3 && args[0] == "make":
		count, bad := strconv.Atoi(args[1])
		seed, worse := strconv.ParseInt(args[2], 10, 64)
		err = first(bad, worse)
		if err == nil {
			err = c.make(count, seed)
		}
	case len(args) == 1 && args[0] == "compare":
		err = c.compare()
	default:
		fail("usage: clients codec make COUNT SEED | clients codec compare")
	}
	if err != nil {
		fail("%v", err)
	}
}

// kinds are those of versions that are there to stay, lists among them.
func (c *codec) kinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for kind, goType := range c.scheme.AllKnownTypes() {
		stable := !strings.Contains(kind.Version, "alpha") && !strings.Contains(kind.Version, "beta")
		// Options and the events of a watch are of every group, a bare List is of any kind; what is no message of its own has no protobuf form.
		options := strings.HasSuffix(kind.Kind, "Options") || kind.Kind == "WatchEvent" || kind.Kind == "List"
		if stable && !options && kind.Version != runtime.APIVersionInternal && goType.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1" {
			kinds = append(kinds, kind)
		}
	}
	sort.Slice(kinds, func(a, b int) bool { return kinds[a].String() < kinds[b].String() })
	return kinds
}

func (c *codec) make(count int, seed int64) error {
	codecs := serializer.NewCodecFactory(c.scheme)
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, schemas)
	filler := fuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs).NilChance(0.3).NumElements(1, 2).MaxDepth(12)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, kind := range c.kinds() {
		for n := 0; n < count; n++ {
			object, err := c.scheme.New(kind)
			if err != nil {
				return err
			}
			filler.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			if err := c.print(out, object); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	return nil
}

// schemas keeps schemas to what JSON can say: a schema, or what stands in its place, not both.
func schemas(_ serializer.CodecFactory) []interface{} {
	return []interface{}{
		func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			s.Allows = true
			if c.Bool() {
				s.Schema = &apiextensionsv1.JSONSchemaProps{Title: c.String(0)}
			} else {
				s.Allows = c.Bool()
			}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			one := apiextensionsv1.JSONSchemaProps{Title: c.String(0)}
			if c.Bool() {
				s.Schema = &one
			} else {
				s.JSONSchemas = []apiextensionsv1.JSONSchemaProps{one, one}
			}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Bool() {
				s.Schema = &apiextensionsv1.JSONSchemaProps{Title: c.String(0)}
			} else {
				s.Property = []string{c.String(0), c.String(0)}
			}
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) {
			j.Raw = []byte(fmt.Sprintf(`{"k":[%d,"x",null]}`, c.Intn(1000)))
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.Raw = []byte(fmt.Sprintf(`{"f:k%d":{}}`, c.Intn(1000)))
		},
		func(d *metav1.Duration, c randfill.Continue) {
			d.Duration = 1500 * 1000 * 1000
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			r.Raw = []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Thing%d"}`, c.Intn(1000)))
		},
	}
}

func (c *codec) print(out *bufio.Writer, object runtime.Object) error {
	text, err := runtime.Encode(c.json, object)
	if err != nil {
		return err
	}
	// What JSON does not tell apart (nothing and an empty list) is not to differ in protobuf.
	again, _, err := c.json.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	bytes, err := runtime.Encode(c.proto, again)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\t%s\n", strings.TrimSpace(string(text)), base64.StdEncoding.EncodeToString(bytes))
	return err
}

func (c *codec) compare() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	compared, different := 0, 0
	for lines.Scan() {
		parts := strings.Split(lines.Text(), "\t")
		if len(parts) != 3 {
			return fmt.Errorf("a line of %d parts", len(parts))
		}
		if err := c.same(parts[0], parts[1], parts[2]); err != nil {
			different++
			if different <= 20 {
				fmt.Println(err)
			}
		}
		compared++
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Printf("%d compared, %d different\n", compared, different)
	return want(different == 0 && compared > 0, "%d of %d differ", different, compared)
}

func (c *codec) same(original, read, written string) error {
	wanted, kind, err := c.json.Decode([]byte(original), nil, nil)
	if err != nil {
		return err
	}
	fromJSON, _, err := c.json.Decode([]byte(read), nil, nil)
	if err != nil {
		return fmt.Errorf("%s: the JSON that was read cannot be read: %w: %s", kind, err, read)
	}
	if !apiequality.Semantic.DeepEqual(wanted, fromJSON) {
		text, _ := runtime.Encode(c.json, fromJSON)
		return fmt.Errorf("%s: read otherwise: %s", kind, apart(original, string(text)))
	}
	bytes, err := base64.StdEncoding.DecodeString(written)
	if err != nil {
		return err
	}
	fromProto, _, err := c.proto.Decode(bytes, nil, nil)
	if err != nil {
		return fmt.Errorf("%s: the protobuf that was written cannot be read: %w: %s", kind, err, original)
	}
	fromProto.GetObjectKind().SetGroupVersionKind(*kind)
	if !apiequality.Semantic.DeepEqual(wanted, fromProto) {
		text, _ := runtime.Encode(c.json, fromProto)
		return fmt.Errorf("%s: written otherwise: %s", kind, apart(original, string(text)))
	}
	return nil
}

// apart shows where two texts begin to differ.
func apart(one, other string) string {
	at := 0
	for at < len(one) && at < len(other) && one[at] == other[at] {
		at++
	}
	from := max(0, at-60)
	return fmt.Sprintf("at %d: …%q, not …%q", at, other[from:min(at+60, len(other))], one[from:min(at+60, len(one))])
}
