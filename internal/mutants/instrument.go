package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// helpers is the file that the changed package gets. MUTANT names the mutant that is on; a
// mutant that is reached is noted in the file MUTANTS_REACHED.
const helpers = `package %s

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantOn, _    = strconv.Atoi(os.Getenv("MUTANT"))
	mutantsFile, _ = os.OpenFile(os.Getenv("MUTANTS_REACHED"), os.O_APPEND|os.O_WRONLY, 0)
	mutantsReached [%d]atomic.Bool
)

func mutant(id int) bool {
	if mutantsFile != nil && !mutantsReached[id].Swap(true) {
		mutantsFile.WriteString(strconv.Itoa(id) + "\n")
	}
	return id == mutantOn
}

type mutantInt interface { ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 }
type mutantNumber interface { mutantInt | ~float32 | ~float64 }

func mutantLT[T cmp.Ordered](id int, a, b T) bool { if mutant(id) { return a <= b }; return (a < b) != mutant(id+1) }
func mutantLE[T cmp.Ordered](id int, a, b T) bool { if mutant(id) { return a < b }; return (a <= b) != mutant(id+1) }
func mutantGT[T cmp.Ordered](id int, a, b T) bool { if mutant(id) { return a >= b }; return (a > b) != mutant(id+1) }
func mutantGE[T cmp.Ordered](id int, a, b T) bool { if mutant(id) { return a > b }; return (a >= b) != mutant(id+1) }
func mutantAdd[T mutantNumber](id int, a, b T) T { if mutant(id) { return a - b }; return a + b }
func mutantSub[T mutantNumber](id int, a, b T) T { if mutant(id) { return a + b }; return a - b }
func mutantMul[T mutantNumber](id int, a, b T) T { if mutant(id) { return a / b }; return a * b }
func mutantQuo[T mutantNumber](id int, a, b T) T { if mutant(id) { return a * b }; return a / b }
func mutantRem[T mutantInt](id int, a, b T) T { if mutant(id) { return a * b }; return a %% b }
`

var (
	// compared and computed name the helper of an operator, and the operators that it tries.
	compared = map[token.Token][3]string{
		token.LSS: {"mutantLT", "<=", ">="}, token.LEQ: {"mutantLE", "<", ">"},
		token.GTR: {"mutantGT", ">=", "<="}, token.GEQ: {"mutantGE", ">", "<"},
	}
	computed = map[token.Token][2]string{
		token.ADD: {"mutantAdd", "-"}, token.SUB: {"mutantSub", "+"}, token.MUL: {"mutantMul", "/"},
		token.QUO: {"mutantQuo", "*"}, token.REM: {"mutantRem", "*"},
	}
	other = map[token.Token]string{
		token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&", token.INC: "--", token.DEC: "++",
		token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.MUL_ASSIGN: "/=", token.QUO_ASSIGN: "*=",
		token.BREAK: "continue", token.CONTINUE: "break",
	}
)

// A Mutant is one change of the code. Its name is file, function, the code in question and what
// stands there instead.
type Mutant struct {
	ID   int
	Name string
	Line int
}

// file is a source file while its mutants are written into it.
type file struct {
	*token.File
	info          *types.Info
	path, text    string
	function      string
	before, after map[int]string      // by offset
	called        map[int]token.Token // the operators that are arguments of a helper now
	add           func(name string, line int) int
}

// instrument writes the files of a package with all their mutants into dir and returns these,
// and what replaces each file: an overlay for the go command.
func instrument(p *packages.Package, folder string, without []string, dir string) ([]Mutant, map[string]string, error) {
	overlay := map[string]string{}
	mutants := []Mutant{{}} // an ID is a place here, from 1
	seen := map[string]int{}
	add := func(name string, line int) int {
		if seen[name]++; seen[name] > 1 {
			name += fmt.Sprintf(" (%d)", seen[name])
		}
		mutants = append(mutants, Mutant{len(mutants), name, line})
		return len(mutants) - 1
	}
	for i, syntax := range p.Syntax {
		path := p.CompiledGoFiles[i]
		base := filepath.Base(path)
		if slices.Contains(without, strings.TrimSuffix(base, ".go")) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		f := &file{File: p.Fset.File(syntax.Pos()), info: p.TypesInfo, path: folder + "/" + base, text: string(text), add: add,
			before: map[int]string{}, after: map[int]string{}, called: map[int]token.Token{}}
		f.mutate(syntax)
		overlay[path] = filepath.Join(dir, base)
		if err := os.WriteFile(overlay[path], []byte(f.written()), 0o600); err != nil {
			return nil, nil, err
		}
	}
	here := filepath.Join(dir, "mutants_of_all.go")
	overlay[filepath.Join(filepath.Dir(p.CompiledGoFiles[0]), "mutants_of_all.go")] = here
	return mutants[1:], overlay, os.WriteFile(here, fmt.Appendf(nil, helpers, p.Name, len(mutants)+1), 0o600)
}

// mutate notes every change of a file.
func (f *file) mutate(syntax *ast.File) {
	var above []ast.Node
	ast.Inspect(syntax, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.function = n.Name.Name
			if n.Recv != nil {
				f.function = strings.Trim(f.source(n.Recv.List[0].Type), "*") + "." + f.function
			}
		case *ast.BinaryExpr:
			f.binary(n)
		case *ast.UnaryExpr:
			f.negated(n.X, n.Op == token.NOT)
			if n.Op == token.SUB && f.number(n) {
				f.wrap(n, fmt.Sprintf("mutantSub(%d, 0", f.mutant(n, f.source(n.X))), ")")
				f.called[f.Offset(n.OpPos)] = n.Op
			}
		case *ast.IfStmt:
			f.negated(n.Cond, true)
		case *ast.ForStmt:
			f.negated(n.Cond, n.Cond != nil)
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				f.negated(e, true)
			}
		case *ast.BlockStmt:
			f.statements(n.List, above)
		case *ast.CommClause:
			f.statements(n.Body, above)
		case *ast.CaseClause:
			if s := above[len(above)-2].(ast.Stmt); isBare(s) {
				for _, e := range n.List {
					f.negated(e, true)
				}
			}
			f.statements(n.Body, above)
		}
		above = append(above, n)
		return true
	})
}

func isBare(s ast.Stmt) bool {
	bare, ok := s.(*ast.SwitchStmt)
	return ok && bare.Tag == nil
}

func (f *file) binary(n *ast.BinaryExpr) {
	op := f.Offset(n.OpPos)
	switch n.Op {
	case token.LAND, token.LOR: // by De Morgan: a || b is !(!a && !b)
		if f.isBool(n) {
			id := f.mutant(n, f.source(n.X)+" "+other[n.Op]+" "+f.source(n.Y))
			not := fmt.Sprintf(") != mutant(%d)", id)
			f.wrap(n, "((", not+")")
			f.wrap(n.X, "((", not+")")
			f.wrap(n.Y, "((", not+")")
		}
		f.negated(n.X, true)
		f.negated(n.Y, true)
	case token.EQL, token.NEQ:
		if f.isBool(n) {
			f.wrap(n, "((", fmt.Sprintf(") != mutant(%d))", f.mutant(n, other[n.Op])))
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if how := compared[n.Op]; f.isBool(n) {
			id := f.mutant(n, how[1])
			f.mutant(n, how[2])
			f.wrap(n, fmt.Sprintf("%s(%d, ", how[0], id), ")")
			f.called[op] = n.Op
		}
	default:
		if how, ok := computed[n.Op]; ok && f.number(n) {
			f.wrap(n, fmt.Sprintf("%s(%d, ", how[0], f.mutant(n, how[1])), ")")
			f.called[op] = n.Op
		}
	}
}

// negated turns a condition around that is no comparison.
func (f *file) negated(e ast.Expr, condition bool) {
	switch inner := e.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.ParenExpr:
		if p, ok := inner.(*ast.ParenExpr); ok {
			f.negated(p.X, condition)
		}
		return
	}
	if t, ok := f.info.Types[e]; condition && ok && t.IsValue() && isBool(t.Type) {
		f.wrap(e, "((", fmt.Sprintf(") != mutant(%d))", f.mutant(e, "!")))
	}
}

// statements leaves out one of them, or turns it around.
func (f *file) statements(list []ast.Stmt, above []ast.Node) {
	for _, s := range list {
		instead := "" // what is done in place of it
		switch n := s.(type) {
		case *ast.BranchStmt:
			if n.Label != nil || !turnable(n.Tok, above) {
				continue
			}
			f.wrap(n, fmt.Sprintf("if mutant(%d) { %s } else { ", f.mutant(n, other[n.Tok]), other[n.Tok]), " }")
			continue
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); !ok || f.source(call.Fun) == "panic" || f.logs(call) {
				continue
			}
		case *ast.IncDecStmt:
			instead = f.source(n.X) + other[n.Tok]
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE || f.logs(n.Rhs[0]) || f.source(n.Lhs[0]) == "_" && len(n.Lhs) == 1 {
				continue
			}
			if op, ok := other[n.Tok]; ok && f.number(n.Lhs[0]) {
				instead = f.source(n.Lhs[0]) + " " + op + " " + f.source(n.Rhs[0])
			}
		case *ast.SendStmt:
		default:
			continue
		}
		start := ""
		if instead != "" {
			start = fmt.Sprintf("if mutant(%d) { %s } else ", f.mutant(s, instead), instead)
		}
		f.wrap(s, start+fmt.Sprintf("if !mutant(%d) { ", f.mutant(s, "nothing")), " }")
	}
}

// turnable says whether a break or continue can be the other: in a loop that has an end.
func turnable(tok token.Token, above []ast.Node) bool {
	for _, n := range slices.Backward(above) {
		switch n := n.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if tok == token.BREAK {
				return false
			}
		case *ast.ForStmt:
			return n.Cond != nil
		case *ast.RangeStmt:
			return true
		case *ast.FuncLit, *ast.FuncDecl:
			return false
		}
	}
	return false
}

// logs is whether a call is one of a logger: what is logged for a person is no decision.
func (f *file) logs(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.info.Types[method.X].Type != nil && f.info.Types[method.X].Type.String() == "*log/slog.Logger"
}

func isBool(t types.Type) bool {
	return types.Identical(t, types.Typ[types.Bool]) || types.Identical(t, types.Typ[types.UntypedBool])
}

func (f *file) isBool(e ast.Expr) bool {
	t := f.info.Types[e]
	return t.Value == nil && isBool(t.Type)
}

// number is whether an expression is a number that the compiler does not know.
func (f *file) number(e ast.Expr) bool {
	t := f.info.Types[e]
	if t.Type == nil || t.Value != nil {
		return false
	}
	basic, ok := t.Type.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

func (f *file) source(n ast.Node) string { return f.text[f.Offset(n.Pos()):f.Offset(n.End())] }

func (f *file) mutant(n ast.Node, instead string) int {
	return f.add(fmt.Sprintf("%s %s: %s → %s", f.path, f.function, short(f.source(n)), short(instead)),
		f.Line(n.Pos()))
}

func short(code string) string {
	r := []rune(strings.Join(strings.Fields(code), " "))
	if len(r) > 70 {
		return string(r[:69]) + "…"
	}
	return string(r)
}

// wrap is called for a node before what is in it.
func (f *file) wrap(n ast.Node, before, after string) {
	f.before[f.Offset(n.Pos())] += before
	end := f.Offset(n.End())
	f.after[end] = after + f.after[end]
}

func (f *file) written() string {
	var b strings.Builder
	at := 0
	offsets := slices.Concat(slices.Collect(maps.Keys(f.before)), slices.Collect(maps.Keys(f.after)), slices.Collect(maps.Keys(f.called)))
	slices.Sort(offsets)
	for _, o := range slices.Compact(offsets) {
		b.WriteString(f.text[at:o] + f.after[o] + f.before[o])
		at = o
		if op, ok := f.called[o]; ok {
			b.WriteString(",")
			at += len(op.String())
		}
	}
	return b.String() + f.text[at:]
}
