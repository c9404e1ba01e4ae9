package awsconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Properties are what a structure of the SDK says, by the names of its fields: without nulls,
// empty strings and what holds nothing else. false and 0 stay: they say something.
// CloudFormation has the same names but where its callers change them.
func Properties(structure any) (map[string]any, error) {
	text, err := json.Marshal(structure)
	if err != nil {
		return nil, fmt.Errorf("the fields of %T: %w", structure, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("the fields of %T: %w", structure, err)
	}
	said, _ := withoutEmpty(tree).(map[string]any)
	return said, nil
}

// withoutEmpty is nil if nothing is left.
func withoutEmpty(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for key, value := range v {
			if value = withoutEmpty(value); value == nil {
				delete(v, key)
			} else {
				v[key] = value
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	case string:
		if v == "" {
			return nil
		}
	}
	return tree
}
