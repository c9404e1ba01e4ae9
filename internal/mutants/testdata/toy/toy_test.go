package toy

import "testing"

func TestClamp(t *testing.T) {
	if Clamp(1, 2, 4) != 2 || Clamp(3, 2, 4) != 3 || Clamp(5, 2, 4) != 4 {
		t.Error("wrong")
	}
}

func TestSum(t *testing.T) {
	if Sum(4) != 7 {
		t.Error("wrong")
	}
}

func TestBoth(t *testing.T) {
	if Both(false, true) {
		t.Error("wrong")
	}
}
