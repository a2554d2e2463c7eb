package wire

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxHoles bounds the elements that are missing in sparse arrays: three bytes of
// text could ask for four billion.
const maxHoles = 1 << 16

// list is the argument of Set.
func (p *parser) list() (bson.Type, error) {
	if !p.at('[') {
		return 0, p.fail("want an array")
	}
	return p.array()
}

// mapEntries is the argument of Map: [["key", value], ...]. It becomes a
// document, so keys are text, or whole numbers, which become text.
func (p *parser) mapEntries() (bson.Type, error) {
	start := p.begin()
	err := p.elements(func(int) error {
		at, t := 0, bson.Type(0)
		p.space()
		err := p.elements(func(i int) (err error) {
			switch i {
			case 0:
				at, err = p.mapKey()
			case 1:
				t, err = p.value()
			default:
				err = p.fail("an entry of a Map has a key and a value")
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case t == 0:
			return p.fail("an entry of a Map has a key and a value")
		case t == bson.TypeUndefined:
			p.drop(at)
		default:
			p.setType(at, t)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	p.end(start)
	return bson.TypeEmbeddedDocument, nil
}

func (p *parser) mapKey() (at int, err error) {
	p.space()
	if p.at('"') {
		key, err := p.quoted()
		if err != nil {
			return 0, err
		}
		return p.key(key)
	}
	text, whole, err := p.digits()
	if err != nil || !whole {
		return 0, p.fail("a key of a Map that is neither text nor a whole number")
	}
	return p.key(text)
}

// sparse is the argument with which serialize-javascript writes an array with
// holes: {"0": ..., "3": ..., "length": 5}. Its indexes rise, as JavaScript
// orders them, and holes become null.
func (p *parser) sparse() (bson.Type, error) {
	start, next, length := p.begin(), 0, -1
	err := p.members(func(key []byte) error {
		if length >= 0 {
			return p.fail("a field follows the length of a sparse array")
		}
		if string(key) == "length" {
			p.space()
			text, whole, err := p.digits()
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(text))
			if err != nil || !whole || n < next {
				return p.fail("the length of a sparse array is wrong")
			}
			length = n
			return p.fill(next, n)
		}
		i, err := strconv.Atoi(string(key))
		if err != nil || i < next || strconv.Itoa(i) != string(key) {
			return p.fail("the indexes of a sparse array have to rise")
		}
		if err := p.fill(next, i); err != nil {
			return err
		}
		next = i + 1
		return p.element(i)
	})
	if err != nil {
		return 0, err
	}
	if length < 0 {
		return 0, p.fail("a sparse array has no length")
	}
	p.end(start)
	return bson.TypeArray, nil
}

// fill writes the holes from index i up to n.
func (p *parser) fill(i, n int) error {
	if n-i > maxHoles-p.holes {
		return p.fail("sparse arrays lack more than %d elements", maxHoles)
	}
	p.holes += n - i
	for ; i < n; i++ {
		at, err := p.item(i)
		if err != nil {
			return err
		}
		p.setType(at, bson.TypeNull)
	}
	return nil
}
