//! Opens the base's file, at the opening of the queue and again after an error. What redb builds on
//! must be on the medium before: after a failed sync the system may show bytes that are not.

use super::Config;
use super::base::Base;
use super::deferred_file::DeferredFile;
use super::disk::{Access, DiskFile, write_again};
use super::io_counters::CountedDisk;
use super::reserve::{BaseFile, touch_len};
use crate::words::error::{Error, Result};
use crate::words::sync::Arc;

/// Bytes of redb's first block.
const BLOCK: u64 = 4096;
/// Where it has its flags.
const FLAGS_AT: usize = 9;
/// The file was not closed since the last commit.
const FLAG_UNCLEAN: u8 = 2;
/// What the block points to was synced before the block was written.
const FLAG_TWO_PHASES: u8 = 4;

/// Opens the base, and answers with its file. This allocates no block of the disk, because no part
/// of the file is sparse. Nothing is written if the anchor names features that this version does
/// not know but must.
pub(super) fn open_base(disk: &CountedDisk, config: &Config) -> Result<(Base, Arc<dyn DiskFile>)> {
    let file = disk.open_base()?;
    if config.access == Access::Read {
        let base = read_base(file.clone(), config)?;
        base.anchor.features()?.admit(config.known, config.access)?;
        return Ok((base, file));
    }
    let deferred = Arc::new(DeferredFile::over(file.clone()).map_err(Error::io)?);
    let base = Base::open(BaseFile::new(deferred.clone()).map_err(Error::io)?, config.cache_bytes)?;
    base.anchor.features()?.admit(config.known, config.access)?;
    rewrite_header(&*file)?;
    deferred.release()?;
    Ok((base, file))
}

/// Opens the base again over the same open file, after a change of it; one that is only read is not
/// changed. By its path it could be another file by now: the folder may have been renamed, and a
/// relative path leads elsewhere once the process has changed its current folder.
pub(super) fn reopen_base(
    file: Arc<dyn DiskFile>,
    config: &Config,
    change: impl FnOnce(&BaseFile) -> Result<()>,
) -> Result<Base> {
    if config.access == Access::Read {
        return read_base(file, config);
    }
    rewrite_header(&*file)?;
    let file = BaseFile::new(file).map_err(Error::io)?;
    change(&file)?;
    Base::open(file, config.cache_bytes)
}

/// Opens a base's file that stays unchanged. redb's repair takes place in memory: it reads every
/// page through the cache, keeps a map of the free pages, which has two bits for each page of the
/// file, and writes the first page of the file.
fn read_base(file: Arc<dyn DiskFile>, config: &Config) -> Result<Base> {
    Base::open_scratch(file, config.cache_bytes)
}

/// Writes redb's first block and the file's length again, and syncs them. The block says which of
/// redb's two roots is valid. After a failed sync the system may show a block and a length that are
/// not on the medium. What the block points to was synced before the block was written, except by
/// redb's compaction, which commits in one phase; after a compaction the whole file is written
/// again.
fn rewrite_header(file: &dyn DiskFile) -> Result<()> {
    let rewritten = (|| {
        let len = file.len()?;
        let mut block = vec![0; usize::try_from(len.min(BLOCK)).unwrap_or(0)];
        file.read_at(0, &mut block)?;
        let flags = block.get(FLAGS_AT).copied().unwrap_or(0);
        let is_one_phase = flags & (FLAG_UNCLEAN | FLAG_TWO_PHASES) == FLAG_UNCLEAN;
        write_again(file, 0, if is_one_phase { len } else { len.min(BLOCK) })?;
        touch_len(file)
    })();
    rewritten.map_err(Error::io)?;
    file.sync().map_err(|error| Error::not_synced("base.redb", error))
}
