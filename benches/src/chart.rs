//! The same figures as bars, drawn as an SVG by hand.
//!
//! A group for each row of the table whose figures are multiples of the limit, a bar for each
//! contestant, and a logarithmic scale, as the slowest are hundreds of times the fastest.

use std::fmt::Write;

use crate::report::{LIMIT, MINILOOP, PEERS, Row, Unit};

const BAR: f64 = 11.0;
const GAP: f64 = 12.0;
const LABELS: f64 = 330.0;
const PLOT: f64 = 620.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 58.0;
const GROUND: f64 = 0.2;
const CEILING: f64 = 1000.0;

struct Bar {
    contestant: &'static str,
    /// Which of miniloop's, where there are several.
    form: &'static str,
    figure: f64,
}

fn colour(contestant: &str) -> &'static str {
    match contestant {
        LIMIT => "#9aa0a6",
        "tokio" => "#4e79a7",
        "smol" => "#59a14f",
        "monoio" => "#b07aa1",
        "calloop" => "#edc948",
        "mio" => "#76b7b2",
        "asyncio" => "#9c755f",
        "uvloop" => "#bab0ac",
        _ => "#e15759",
    }
}

/// Where a figure is on the scale.
fn position(figure: f64) -> f64 {
    let figure = figure.clamp(GROUND, CEILING);
    LABELS + PLOT * (figure / GROUND).ln() / (CEILING / GROUND).ln()
}

fn groups(rows: &[Row]) -> Vec<(&str, Vec<Bar>)> {
    let told_in_multiples = rows.iter().filter(|row| row.unit() == Unit::Nanoseconds);
    let groups = told_in_multiples.map(|row| {
        let bar = |contestant, entry, form| {
            let figure = row.figure(entry)?;
            Some(Bar {
                contestant,
                form,
                figure,
            })
        };
        let own = row
            .goals()
            .iter()
            .filter_map(|goal| bar(MINILOOP, goal.entry, goal.form));
        let peers = PEERS.into_iter().filter_map(|peer| bar(peer, peer, ""));
        (row.title(), own.chain(peers).collect())
    });
    groups.collect()
}

/// The whole chart.
pub fn svg(rows: &[Row]) -> String {
    let groups = groups(rows);
    let bars: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let bottom = TOP + bars as f64 * BAR + groups.len() as f64 * GAP;
    let (width, height) = (LABELS + PLOT + RIGHT, bottom + 20.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\">Time as a multiple of the hand-written limit \
         (1 = the limit; shorter is better; logarithmic)</text>\n"
    );
    legend(&mut text, &groups);
    scale(&mut text, bottom);
    let mut top = TOP;
    for (title, bars) in &groups {
        let middle = top + bars.len() as f64 * BAR / 2.0 + 4.0;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
            LABELS - 10.0,
            escaped(title)
        );
        for bar in bars {
            bar.draw(&mut text, top);
            top += BAR;
        }
        top += GAP;
    }
    text + "</svg>\n"
}

impl Bar {
    fn draw(&self, text: &mut String, top: f64) {
        let end = position(self.figure);
        let figure = if self.figure < 10.0 {
            format!("{:.2}", self.figure)
        } else {
            format!("{:.0}", self.figure)
        };
        let _ = writeln!(
            text,
            "<rect x=\"{LABELS}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\">\
             <title>{}: {figure}</title></rect>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{figure} {}</text>",
            end - LABELS,
            BAR - 2.0,
            colour(self.contestant),
            self.contestant,
            end + 4.0,
            top + BAR - 3.0,
            self.form.replace('`', ""),
        );
    }
}

fn legend(text: &mut String, groups: &[(&str, Vec<Bar>)]) {
    let mut left = 12.0;
    for contestant in [MINILOOP].into_iter().chain(PEERS) {
        let takes_part = groups
            .iter()
            .any(|(_, bars)| bars.iter().any(|bar| bar.contestant == contestant));
        if takes_part {
            let _ = writeln!(
                text,
                "<rect x=\"{left}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"39\">{contestant}</text>",
                colour(contestant),
                left + 14.0
            );
            left += 82.0;
        }
    }
}

fn scale(text: &mut String, bottom: f64) {
    for mark in [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0] {
        let left = position(mark);
        let (line, thickness) = if mark == 1.0 {
            (colour(LIMIT), 2)
        } else {
            ("#e8eaed", 1)
        };
        let _ = writeln!(
            text,
            "<line x1=\"{left:.1}\" y1=\"{}\" x2=\"{left:.1}\" y2=\"{bottom}\" stroke=\"{line}\" \
             stroke-width=\"{thickness}\"/><text x=\"{left:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>",
            TOP - 4.0,
            bottom + 12.0
        );
    }
}

fn escaped(title: &str) -> String {
    title.replace('&', "&amp;").replace('<', "&lt;")
}
