//! Where the tokens of a clip are: the grid, its windows, and the groups that a block goes through.

use std::ops::Range;

use remaster_compute::{ComputeError, DType, Ops, Rotation, Shape, Tensor, Window, WindowsDesc};

use super::DitConfig;
use super::rope::Turns;
use super::windows::windows;

/// All tokens of a clip, `[t, h * w, 1, d]` in f32: what blocks add to.
pub struct Grid {
    /// The tokens.
    pub tokens: Tensor,
    /// Columns.
    pub width: usize,
}

/// The windows of one kind of block.
pub struct Layout {
    windows: Vec<Window>,
    lengths: Vec<usize>,
    /// `[1, tokens, 1, 3]`, in the order of the windows.
    places: Tensor,
    groups: Vec<Range<usize>>,
}

/// Both kinds of windows and what turns their tokens. Built once per clip.
pub struct Layouts {
    /// Of even blocks, then of odd ones.
    pub layouts: [Layout; 2],
    table: Tensor,
    text_places: Option<Tensor>,
}

impl Layouts {
    /// For a grid of `[t, h, w]` tokens and a text of `text`. Groups have up to `ops.group()` tokens, but whole windows.
    pub fn new(
        ops: &mut dyn Ops,
        config: &DitConfig,
        size: [usize; 3],
        text: usize,
    ) -> Result<Self, ComputeError> {
        let (lists, group) = ([false, true].map(|shifted| windows(size, shifted)), ops.group());
        let turns = Turns::new(config, text, lists.iter().flatten());
        let mut upload = |tokens: usize, channels: usize, values: &[f32]| {
            let tensor = ops.alloc(Shape::new(1, tokens, 1, channels), DType::F32)?;
            ops.upload(values, tensor.view())?;
            Ok::<_, ComputeError>(tensor)
        };
        let table = upload(turns.positions(), 2 * config.frequencies(), &turns.table())?;
        let text_places = turns.text_places().map(|places| upload(text, 3, &places)).transpose()?;
        let mut layout = |list: Vec<Window>| {
            let values: Vec<f32> = list.iter().flat_map(|window| turns.places(window)).collect();
            Ok::<_, ComputeError>(Layout::new(list, upload(values.len() / 3, 3, &values)?, group))
        };
        let [even, odd] = lists;
        Ok(Layouts { layouts: [layout(even)?, layout(odd)?], table, text_places })
    }

    /// What turns the tokens of the text, if anything does.
    pub fn text_rotation(&self) -> Option<Rotation<'_>> {
        let places = self.text_places.as_ref()?;
        Some(Rotation { table: self.table.view(), places: places.view() })
    }

    /// What turns some tokens of a layout.
    pub fn rotation<'a>(&'a self, group: &Group<'a>) -> Rotation<'a> {
        Rotation { table: self.table.view(), places: group.places.view().rows(group.rows.clone()) }
    }
}

/// Some windows that go through a block together.
pub struct Group<'a> {
    /// The windows.
    pub windows: &'a [Window],
    /// Tokens of each.
    pub lengths: &'a [usize],
    /// Their tokens, in the order of all windows.
    pub rows: Range<usize>,
    places: &'a Tensor,
}

impl Layout {
    fn new(windows: Vec<Window>, places: Tensor, most: usize) -> Self {
        let lengths: Vec<usize> = windows.iter().map(Window::tokens).collect();
        let mut groups = Vec::new();
        let (mut first, mut tokens) = (0, 0);
        for (i, n) in lengths.iter().enumerate() {
            if i > first && n.saturating_add(tokens) > most {
                groups.push(first..i);
                (first, tokens) = (i, 0);
            }
            tokens += n;
        }
        groups.push(first..lengths.len());
        Layout { windows, lengths, places, groups }
    }

    /// How many windows there are.
    pub fn count(&self) -> usize {
        self.windows.len()
    }

    /// The groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let mut first = 0;
        self.groups.iter().map(move |group| {
            let lengths = &self.lengths[group.clone()];
            let rows = first..first + lengths.iter().sum::<usize>();
            first = rows.end;
            Group { windows: &self.windows[group.clone()], lengths, rows, places: &self.places }
        })
    }
}

impl Grid {
    /// The tokens of a group, `[1, n, 1, d]`.
    pub fn take(&self, ops: &mut dyn Ops, group: &Group<'_>) -> Result<Tensor, ComputeError> {
        let shape = Shape::new(1, group.rows.len(), 1, self.tokens.shape().c);
        let tokens = ops.alloc(shape, self.tokens.dtype())?;
        ops.gather(&self.moves(group, &tokens))?;
        Ok(tokens)
    }

    /// Puts them back.
    pub fn put(&self, ops: &mut dyn Ops, group: &Group<'_>, tokens: &Tensor) -> Result<(), ComputeError> {
        ops.scatter(&self.moves(group, tokens))
    }

    fn moves<'a>(&'a self, group: &Group<'a>, tokens: &'a Tensor) -> WindowsDesc<'a> {
        let (grid, tokens) = (self.tokens.view(), tokens.view());
        WindowsDesc { grid, width: self.width, windows: group.windows, tokens }
    }
}
