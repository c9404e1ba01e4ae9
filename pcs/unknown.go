package pcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// keepAnswer makes a read leave its answer in to: the SDK drops silently what this version of it has no field for.
func keepAnswer(to *[]byte) func(*pcs.Options) {
	keep := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil {
			*to, err = io.ReadAll(answer.Body)
			answer.Body = io.NopCloser(bytes.NewReader(*to))
		}
		return out, metadata, err
	}
	return func(o *pcs.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			// After the SDK's own decoder, so nearer to the wire.
			return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("KeepAnswer", keep), "OperationDeserializer", middleware.After)
		})
	}
}

// membersOf are those of a structure in an answer of PCS; none where it is no structure.
func membersOf(answer []byte, structure string) map[string]any {
	var said map[string]map[string]any
	_ = json.Unmarshal(answer, &said) // the SDK has read it
	return said[structure]
}

// unknownIn names what is set in a JSON value and has no field in an SDK type. Its fields have the names on the wire but
// for the first letter. Lists of structures are searched as well; a time is a number.
func unknownIn(t reflect.Type, value any, path string) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			names = append(names, unknownIn(t, item, path)...)
		}
	case map[string]any:
		for name, one := range v {
			if t.Kind() != reflect.Struct || name == "" {
				continue
			}
			if field, found := t.FieldByName(strings.ToUpper(name[:1]) + name[1:]); found {
				names = append(names, unknownIn(field.Type, one, path+name+".")...)
			} else if text := fmt.Sprint(one); text != "<nil>" && text != "map[]" && text != "[]" {
				names = append(names, path+name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Lost are the unknown settings that an update of the group could lose: PCS replaces each member that it gets, and
// keeps all others.
func (g NodeGroup) Lost() []string {
	return within(g.Unknown, "customLaunchTemplate", "scalingConfiguration")
}

// Lost are the unknown settings that an update of the queue, with the wanted Slurm settings, could lose; each update
// sends the list of its node groups.
func (q Queue) Lost(want map[string]string) []string {
	members := []string{"computeNodeGroupConfigurations"}
	if q.withSettings(want) != nil {
		members = append(members, "slurmConfiguration")
	}
	return within(q.Unknown, members...)
}

// within are the names of settings that lie in one of the members.
func within(names []string, members ...string) (all []string) {
	for _, name := range names {
		if member, _, deeper := strings.Cut(name, "."); deeper && slices.Contains(members, member) {
			all = append(all, name)
		}
	}
	return all
}

// ErrUnknown is the refusal of a change that could lose settings of PCS unknown to this program.
var ErrUnknown = errors.New("it has settings that this version of pcs-capacity does not know, and this change could lose them")

// keeps refuses a change that could lose settings.
func keeps(what, name string, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s is not updated: %w: %s; change it in PCS", what, name, ErrUnknown, strings.Join(lost, ", "))
}

// LifecycleActions are the nodeLifecycleActions of a node group, as PCS said them: scripts that
// mount file systems and install software when a node boots. The SDK has no field for them, so they
// go over the wire as they came. nil stands for none.
type LifecycleActions json.RawMessage

// lifecycleMember is their name on the wire.
const lifecycleMember = "nodeLifecycleActions"

// Equal compares what both say, in any order of members.
func (a LifecycleActions) Equal(b LifecycleActions) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(x, y)
}

// String names the scripts with their stages: "nodeBootstrapped: mount, nodeReady: runtime".
func (a LifecycleActions) String() string {
	var said struct {
		Stages map[string][]struct{ Name string }
	}
	_ = json.Unmarshal(a, &said) // of another form there are none
	var scripts []string
	for _, stage := range slices.Sorted(maps.Keys(said.Stages)) {
		for _, script := range said.Stages[stage] {
			scripts = append(scripts, stage+": "+script.Name)
		}
	}
	return strings.Join(scripts, ", ")
}

// compared is the setting of a comparison. No actions wanted leaves those that are there.
func (a LifecycleActions) compared(want LifecycleActions) Setting {
	s := Setting{Name: "lifecycle actions", Now: a.String(), Want: want.String()}
	switch {
	case want == nil:
		s.Want = s.Now
	case !a.Equal(want) && s.Now == s.Want:
		s.Want += " (changed)"
	}
	return s
}

// sendActions adds lifecycle actions to a request; none leaves it as it is.
func sendActions(actions LifecycleActions) func(*pcs.Options) {
	add := func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (out middleware.SerializeOutput, m middleware.Metadata, err error) {
		request := in.Request.(*smithyhttp.Request) // as the SDK's own serializer has made it
		var members map[string]json.RawMessage
		if err = json.NewDecoder(request.GetStream()).Decode(&members); err == nil {
			members[lifecycleMember] = json.RawMessage(actions)
			body, _ := json.Marshal(members) // what has been decoded can be encoded
			in.Request, err = request.SetStream(bytes.NewReader(body))
		}
		if err != nil {
			return out, m, fmt.Errorf("adding the lifecycle actions: %w", err)
		}
		return next.HandleSerialize(ctx, in)
	}
	return func(o *pcs.Options) {
		if len(actions) > 0 {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				return stack.Serialize.Insert(middleware.SerializeMiddlewareFunc("LifecycleActions", add), "OperationSerializer", middleware.After)
			})
		}
	}
}
