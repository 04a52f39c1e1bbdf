//! The table of tasks, "[ pid ]   uid  tgid total_vm ... name", whose columns changed from version to version.

use std::collections::BTreeMap;

use crate::kill::{Command, TASKS_MAX, Task, Tasks};

/// Commands that are counted apart; rows of others count in the sum alone.
const COMMANDS_MAX: usize = 1024;
const COMMANDS_KEPT: usize = 8;
/// Rows that are held while the table is read; then the smallest go.
const ROWS_HELD: usize = 2 * TASKS_MAX;

/// A row in pages.
#[derive(Debug, Clone)]
struct Row {
    pid: u32,
    uid: u32,
    total_vm: u64,
    rss: u64,
    swap_entries: u64,
    oom_score_adj: i32,
    command: String,
}

/// A table as it is read, row by row.
#[derive(Debug, Default)]
pub struct TaskTable {
    columns: Vec<String>,
    rows: Vec<Row>,
    count: u64,
    rss: u64,
    commands: BTreeMap<String, (u64, u64)>,
}

impl TaskTable {
    /// From its header.
    pub fn of_header(text: &str) -> Option<TaskTable> {
        let rest = text.strip_prefix('[')?;
        let (pid, columns) = rest.split_once(']')?;
        let columns: Vec<String> = columns.split_whitespace().map(str::to_owned).collect();
        let is_table = pid.trim() == "pid" && columns.last().is_some_and(|last| last == "name");
        is_table.then(|| TaskTable {
            columns,
            ..TaskTable::default()
        })
    }

    /// Takes a row; `None` where it is none.
    pub fn row(&mut self, text: &str) -> Option<()> {
        let (pid, mut rest) = text.strip_prefix('[')?.split_once(']')?;
        let mut row = Row {
            pid: pid.trim().parse().ok()?,
            uid: 0,
            total_vm: 0,
            rss: 0,
            swap_entries: 0,
            oom_score_adj: 0,
            command: String::new(),
        };
        let numbers = self.columns.len().checked_sub(1)?;
        for column in &self.columns[..numbers] {
            rest = rest.trim_start();
            let (number, after) = rest.split_once(' ')?;
            let number: i64 = number.parse().ok()?;
            let positive = number.unsigned_abs();
            match column.as_str() {
                "uid" => row.uid = positive.try_into().ok()?,
                "total_vm" => row.total_vm = positive,
                "rss" => row.rss = positive,
                "swapents" => row.swap_entries = positive,
                "oom_score_adj" => row.oom_score_adj = number.try_into().ok()?,
                _ => {}
            }
            rest = after;
        }
        row.command = rest.trim_start().to_owned();
        self.take(row);
        Some(())
    }

    fn take(&mut self, row: Row) {
        self.count += 1;
        self.rss = self.rss.saturating_add(row.rss);
        let is_known = self.commands.contains_key(&row.command);
        if is_known || self.commands.len() < COMMANDS_MAX {
            let sum = self.commands.entry(row.command.clone()).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(row.rss));
        }
        self.rows.push(row);
        if self.rows.len() >= ROWS_HELD {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.rows
            .sort_by(|a, b| b.rss.cmp(&a.rss).then(a.pid.cmp(&b.pid)));
        self.rows.truncate(TASKS_MAX);
    }

    /// Pages that the row of a pid says are mapped: beside the same in kB, it tells the size of a page.
    pub fn total_vm_pages(&self, pid: u32) -> Option<u64> {
        let row = self.rows.iter().find(|row| row.pid == pid)?;
        Some(row.total_vm)
    }

    pub fn finish(mut self, page_bytes: u64) -> Tasks {
        self.thin();
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let task = |row: Row| Task {
            pid: row.pid,
            uid: row.uid,
            command: row.command,
            resident_bytes: bytes(row.rss),
            virtual_bytes: bytes(row.total_vm),
            swap_bytes: bytes(row.swap_entries),
            oom_score_adj: row.oom_score_adj,
        };
        let commands = self
            .commands
            .into_iter()
            .map(|(command, (count, rss))| Command {
                command,
                count,
                resident_bytes: bytes(rss),
            });
        let mut commands: Vec<Command> = commands.collect();
        commands.sort_by_key(|command| std::cmp::Reverse(command.resident_bytes));
        commands.truncate(COMMANDS_KEPT);
        Tasks {
            largest: self.rows.into_iter().map(task).collect(),
            count: self.count,
            resident_bytes: bytes(self.rss),
            commands,
        }
    }
}
