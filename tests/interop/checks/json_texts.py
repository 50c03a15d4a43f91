"""JSON in spellings that a parser would not print again."""

import random

NUMBERS = ["0", "-0", "-0.0", "1.10", "1e400", "-1E-400", "1e+05", "9007199254740993", "123456789012345678901234567890"]
STRINGS = [
    '""',
    r'"\u0061"',
    r'"\/"',
    '"/"',
    r'"\ud83d\ude00"',
    '"😀"',
    '"ä\u2028\u007f"',
    r'"\u0000\b\f\n\r\t\"\\"',
    r'"\uD800"',
    '"2.0"',
]
CONSTANTS = ["null", "true", "false"]
# Keys that mean something one or two levels further up.
KEYS = ['"id"', '"jsonrpc"', '"method"', '"params"', '"result"', '"_meta"', '"progressToken"', '"requestId"']
# A bare carriage return is a blank too, but mcpd refuses it: careless peers take it for the end of a line.
SPACES = ["", "", "", " ", "  ", "\t", " \t "]
# What a call leaves open, set off by NUL, which JSON never has.
ID, NAME, TOKEN = "\0id\0", "\0name\0", "\0token\0"
LARGE = 1 << 20
DEEPEST = 5000


class Texts:
    """Generated texts; the same seed gives the same ones."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def id(self):
        return self._random.choice([self._number, self._string])()

    def call(self, name):
        """A call of the tool with this exposed name, as a function of what may be replaced: id, name and progress token.

        Its id stands before anything of which a reader could think that it is the id.
        """
        spelled_name = self._random.choice([f'"{name}"', '"' + name.replace("_", r"\u005f", 1) + '"'])
        has_token, token = self._random.random() < 0.5, self.id()
        envelope = [['"jsonrpc"', '"2.0"'], ['"method"', '"tools/call"'], ['"id"', ID]]
        params = [['"name"', NAME], ['"arguments"', self._arguments()], *self._unknown()]
        if has_token:
            meta = [['"progressToken"', TOKEN], *self._unknown()]
            params.append(['"_meta"', self._members(self._shuffled(meta))])
        rest = self._shuffled([['"params"', self._members(self._shuffled(params))], *self._unknown()])
        call = self.spaced(self._members(self._shuffled(envelope) + rest))

        def render(id, name=spelled_name, token=token):
            text = call.replace(ID, id).replace(NAME, name).replace(TOKEN, token)
            return text.encode()

        return render

    def spaced(self, text):
        return self._space() + text + self._space()

    def _arguments(self):
        kind = self._random.randrange(40)
        if kind == 0:
            return '{"large":"%s"}' % (r"x€\u0041\/😀" * (LARGE // 16))
        if kind == 1:
            depth = self._random.randrange(DEEPEST)
            return '{"deep":%s%s%s}' % ("[" * depth, self._number(), "]" * depth)
        return self._object(self._random.randrange(5))

    def _unknown(self):
        # A key may also be no text: a lone surrogate is legal JSON.
        keys = ['"x-%d"', r'"\ud800%d"']
        return [[self._random.choice(keys) % number, self._value(2)] for number in range(self._random.randrange(3))]

    def _value(self, depth):
        kinds = [self._number, self._string, lambda: self._random.choice(CONSTANTS)]
        if depth:
            kinds += [lambda: self._array(depth - 1), lambda: self._object(depth - 1)]
        return self._random.choice(kinds)()

    def _array(self, depth):
        values = (self.spaced(self._value(depth)) for _ in range(self._random.randrange(5)))
        return "[" + (",".join(values) or self._space()) + "]"

    def _object(self, depth):
        return self._members([[self._key(), self._value(depth)] for _ in range(self._random.randrange(6))])

    def _members(self, members):
        spaced = (":".join(self.spaced(part) for part in member) for member in members)
        return "{" + (",".join(spaced) or self._space()) + "}"

    def _key(self):
        return self._random.choice([self._string(), *KEYS])

    def _number(self):
        digits = str(self._random.getrandbits(self._random.randrange(1, 200)))
        return self._random.choice([*NUMBERS, digits, f"-{digits}.{digits}0"])

    def _string(self):
        return self._random.choice(STRINGS)

    def _shuffled(self, items):
        return self._random.sample(items, len(items))

    def _space(self):
        return self._random.choice(SPACES)
