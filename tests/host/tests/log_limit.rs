// SPDX-License-Identifier: GPL-2.0
//! The limit of lines of the log.

#[path = "../../../rust/kern/log_limit.rs"]
mod log_limit;

use log_limit::{place, LogVerdict, LogWindow, MOST, MOST_OF_PROCESS, PLACES};

fn lines(window: &mut LogWindow, second: u32, most: u64, tries: u32) -> (u64, u64) {
    let (mut written, mut told) = (0, 0);
    for _ in 0..tries {
        let (next, verdict) = window.next(second, most);
        *window = LogWindow::from_word(next.word());
        if let LogVerdict::Write { left_out } = verdict {
            written += 1;
            told += left_out;
        }
    }
    (written, told)
}

#[test]
fn a_second_has_so_many_lines() {
    let mut window = LogWindow::EMPTY;
    assert_eq!(lines(&mut window, 0, 5, 3), (3, 0));
    assert_eq!(lines(&mut window, 0, 5, 10), (2, 0));
    // The next line says how many were left out.
    assert_eq!(lines(&mut window, 7, 5, 1), (1, 8));
    assert_eq!(lines(&mut window, 8, 5, 1), (1, 0));
    // The count does not overflow.
    assert_eq!(lines(&mut window, 9, 1, (1 << 24) + 10), (1, 0));
    assert_eq!(lines(&mut window, u32::MAX, 1, 1), (1, (1 << 24) - 1));
}

/// One limit for all would leave out the line of the second process.
#[test]
fn a_process_does_not_hide_the_lines_of_another() {
    let mut all = LogWindow::EMPTY;
    let mut places = [LogWindow::EMPTY; PLACES];
    let mut line = |process: i64| {
        let own = &mut places[place(process)];
        let (next, verdict) = own.next(1, MOST_OF_PROCESS);
        *own = next;
        if verdict == LogVerdict::LeaveOut {
            return false;
        }
        let (next, verdict) = all.next(1, MOST);
        all = next;
        verdict != LogVerdict::LeaveOut
    };
    for _ in 0..1000 {
        line(100);
    }
    assert!(line(101));
    // Many together do not fill the log.
    let written = (200..2000).filter(|process| line(*process)).count();
    assert!(written as u64 <= MOST);
}
