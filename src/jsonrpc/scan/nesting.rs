//! The stack of open arrays and objects.

/// An array or an object.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Array,
    Object,
}

/// One bit for each level: the innermost 64 in a word, the outer ones in a vector.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    objects: u64,
    further_out: Vec<u64>,
}

impl Nesting {
    pub(super) fn push(&mut self, kind: Kind) {
        if self.depth.is_multiple_of(64) {
            self.put_further_out();
        }
        self.objects = self.objects << 1 | u64::from(kind == Kind::Object);
        self.depth += 1;
    }

    pub(super) fn pop(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
        if self.depth.is_multiple_of(64) {
            self.take_from_further_out();
        }
    }

    #[cold]
    fn put_further_out(&mut self) {
        if self.depth > 0 {
            self.further_out.push(self.objects);
        }
    }

    #[cold]
    fn take_from_further_out(&mut self) {
        self.objects = self.further_out.pop().unwrap_or_default();
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn innermost(&self) -> Option<Kind> {
        (self.depth > 0).then_some(if self.objects & 1 == 1 { Kind::Object } else { Kind::Array })
    }
}
